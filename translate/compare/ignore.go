package compare

import (
	"fmt"
	"strings"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"taskbridge/translate/jsonrpc"
)

// Ignore is a path (RFC 9535) in the documents of both operations; what it
// selects is not compared.
type Ignore struct{ path *jsonpath.Path }

// ParseIgnore reads a JSONPath query. One that does not begin with $ is taken
// from the document down: result.content[0].text.
func ParseIgnore(s string) (Ignore, error) {
	query := strings.TrimSpace(s)
	if !strings.HasPrefix(query, "$") {
		query = "$." + strings.TrimPrefix(query, ".")
	}
	p, err := jsonpath.Parse(query)
	if err != nil {
		return Ignore{}, fmt.Errorf("%q is no JSONPath query (RFC 9535): %w", s, err)
	}
	return Ignore{p}, nil
}

// ignored stands for an element left out, so that the others keep their places.
var ignored = &node{typ: jsonrpc.Null, raw: "null"}

// apply takes what the path selects out of doc.
func (i Ignore) apply(doc *node) {
	marked := map[*node]bool{}
	for _, located := range i.path.SelectLocated(doc.value()) {
		if n := doc.find(located.Path); n != nil {
			marked[n] = true
		}
	}
	if len(marked) > 0 {
		doc.sweep(marked)
	}
}

func (n *node) find(path spec.NormalizedPath) *node {
	for _, sel := range path {
		if n != nil && n.text != nil {
			n = n.text
		}
		if n == nil {
			return nil
		}
		switch s := sel.(type) {
		case spec.Name:
			n = n.get(string(s))
		case spec.Index:
			if int(s) < 0 || int(s) >= len(n.kids) {
				return nil
			}
			n = n.kids[s]
		}
	}
	return n
}

func (n *node) sweep(marked map[*node]bool) {
	if n.text != nil {
		n.text.sweep(marked)
	}
	for i := len(n.kids) - 1; i >= 0; i-- {
		switch {
		case !marked[n.kids[i]]:
			n.kids[i].sweep(marked)
		case n.typ == jsonrpc.Object:
			n.remove(i)
		default:
			n.kids[i] = ignored
		}
	}
}
