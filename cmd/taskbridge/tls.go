package main

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"taskbridge/cmd/taskbridge/config"
)

// tlsFlags say how clients reach us encrypted.
type tlsFlags struct{ cert, key string }

func (f *tlsFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.cert, "tls-cert", "", "PEM `FILE` with the certificate and its chain: clients connect with https://; read again when it changes")
	fs.StringVar(&f.key, "tls-key", "", "PEM `FILE` with the key of --tls-cert")
}

// load reads the pair once; nil without the flags.
func (f *tlsFlags) load(fs *pflag.FlagSet) (*keyPair, error) {
	switch {
	case f.cert == "" && f.key == "":
		return nil, nil
	case f.key == "":
		return nil, usagef("%s needs --tls-key FILE beside it", where(fs, "tls-cert"))
	case f.cert == "":
		return nil, usagef("%s needs --tls-cert FILE beside it", where(fs, "tls-key"))
	}
	p, err := newKeyPair(f.cert, f.key)
	if err != nil {
		return nil, usagef("%s, %s: %w", where(fs, "tls-cert"), where(fs, "tls-key"), err)
	}
	return p, nil
}

func newKeyPair(cert, key string) (*keyPair, error) {
	p := &keyPair{certFile: cert, keyFile: key}
	if err := p.read(); err != nil {
		return nil, err
	}
	return p, nil
}

// keyPair is a certificate that is renewed on disk while we run.
type keyPair struct {
	certFile, keyFile string

	mu       sync.Mutex // protects the fields below
	pair     *tls.Certificate
	modified time.Time
	looked   time.Time
}

// lookEvery: how often a handshake looks for a newer certificate.
const lookEvery = 10 * time.Second

// read needs p.mu, or nobody else.
func (p *keyPair) read() error {
	modified, err := p.changed()
	if err != nil {
		return err
	}
	for _, name := range []string{p.certFile, p.keyFile} {
		f, err := config.OpenRegular(name) // all handshakes wait for what is read here
		if err != nil {
			return err
		}
		f.Close()
	}
	pair, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return err
	}
	p.pair, p.modified, p.looked = &pair, modified, time.Now()
	return nil
}

// changed is when the younger of the two files was written.
func (p *keyPair) changed() (time.Time, error) {
	var last time.Time
	for _, name := range []string{p.certFile, p.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return last, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}

// certificate goes on with the pair it has while a new one is being written.
func (p *keyPair) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.looked) >= lookEvery {
		p.looked = now
		if modified, err := p.changed(); err == nil && !modified.Equal(p.modified) {
			_ = p.read()
		}
	}
	return p.pair, nil
}

// encrypted wraps a listener; current is the certificate there is at a handshake.
func encrypted(ln net.Listener, current func() *keyPair) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return current().certificate(hello) },
	})
}
