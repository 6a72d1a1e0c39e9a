package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbridge/cmd/peers"
)

// writePair makes a certificate for loopback.
func writePair(t *testing.T, certFile, keyFile, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestServe_TLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	roots := x509.NewCertPool()
	roots.AddCert(writePair(t, certFile, keyFile, "first"))
	s := serve(t, "--upstream", peer(t, peers.NewModernServer(peers.ServerOptions{})), "--tls-cert", certFile, "--tls-key", keyFile)
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("listens on %s", s.url)
	}
	for want, http2 := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(discoverCall))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = modernHeader.Clone()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.Proto != want || resp.StatusCode != 200 || !strings.Contains(string(body), `"tools"`) {
			t.Errorf("%s %d %s", resp.Proto, resp.StatusCode, body)
		}
	}
}

func TestTLSFlags(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, "x")
	for name, c := range map[string]struct{ args []string }{
		"no key":       {[]string{"--tls-cert", cert}},
		"no cert":      {[]string{"--tls-key", key}},
		"missing file": {[]string{"--tls-cert", cert, "--tls-key", key + "x"}},
		"not a key":    {[]string{"--tls-cert", cert, "--tls-key", cert}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, stderr := runArgs(t, append([]string{"serve", "--upstream", "http://127.0.0.1:1/mcp"}, c.args...)...)
			if code != 2 || !strings.Contains(stderr, "--tls-") {
				t.Errorf("exit %d: %s", code, stderr)
			}
		})
	}
}

// A renewed certificate is used without a restart; a broken one is not.
func TestKeyPair_Renewed(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, "first")
	p := &keyPair{certFile: cert, keyFile: key}
	if err := p.read(); err != nil {
		t.Fatal(err)
	}
	name := func() string {
		p.looked = time.Time{}
		c, err := p.certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.Subject.CommonName
	}
	if got := name(); got != "first" {
		t.Fatal(got)
	}
	writePair(t, cert, key, "second")
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(cert, later, later); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "second" {
		t.Fatal(got)
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "second" {
		t.Fatal(got)
	}
}
