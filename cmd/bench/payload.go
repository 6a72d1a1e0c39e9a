package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const (
	small     = 1 << 10
	largeFrom = 64 << 10 // bytes from which a message counts as large
)

// words is JSON text of n bytes, as logs look: with escapes in it.
func words(n int) string {
	const line = `2026-01-02T03:04:05Z INFO GET \"/api/v1/items\" took 12 ms\n`
	var b strings.Builder
	for b.Len()+len(line) <= n {
		b.WriteString(line)
	}
	b.WriteString(strings.Repeat("x", n-b.Len()))
	return b.String()
}

// letters is n bytes as base64 looks.
func letters(n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// rows is a JSON array of at most n bytes, of objects of small values.
func rows(n int) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := 0; ; i++ {
		row := fmt.Sprintf(`{"id":%d,"name":"row %d","price":%d.25,"tags":["new","café"],"sold":%t,"note":null}`, i, i, i%1000, i%2 == 0)
		if b.Len()+len(row)+2 > n {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(row)
	}
	b.WriteByte(']')
	return b.String()
}

// The three below are members of a tool's result, of about n bytes.

func textContent(n int) string {
	return `"content":[{"type":"text","text":"` + words(max(0, n-40)) + `"}]`
}

func blobContent(n int) string {
	return `"content":[{"type":"image","data":"` + letters(max(0, n-70)) + `","mimeType":"image/png"}]`
}

func rowsContent(n int) string {
	return `"content":[{"type":"text","text":"see structuredContent"}],"structuredContent":{"rows":` + rows(max(2, n-100)) + `}`
}
