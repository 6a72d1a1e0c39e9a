package config

import (
	"net/netip"
	"strings"
	"time"

	"taskbridge/translate"
)

// Kinds of a single key.

type (
	durationValue = time.Duration
	prefixList    []netip.Prefix
)

func prefixes() kind[prefixList] {
	plain := listOf(proxy, maxList)
	show := func(list *prefixList) *shown {
		out := &shown{list: true, zero: len(*list) == 0}
		for _, p := range *list {
			out.items = append(out.items, &shown{text: p.String()})
		}
		return out
	}
	return kind[prefixList]{word: plain.word, schema: plain.schema, list: true, show: show, read: func(r *reader, at place, into *prefixList) {
		var texts []string
		plain.read(r, at, &texts)
		for _, s := range texts {
			if p, err := parsePrefix(s); err == nil {
				*into = append(*into, p.Masked())
			}
		}
	}}
}

func stateKeyKind() kind[StateKey] {
	plain := textOf("file or env:NAME", "the name of a file, or env:NAME", true, schema{"type": "string", "minLength": 1}, stateKey)
	show := func(k *StateKey) *shown {
		if k.Env != "" {
			return &shown{text: "env:" + k.Env}
		}
		return &shown{text: absolute(k.File)}
	}
	return kind[StateKey]{word: plain.word, schema: plain.schema, show: show, read: func(r *reader, at place, into *StateKey) {
		var s string
		plain.read(r, at, &s)
		if env, ok := strings.CutPrefix(s, "env:"); ok {
			into.Env = env
			if _, set := r.getenv(env); !set {
				r.bad(at, "environment variable %s is not set; it must hold the key", env)
			}
			return
		}
		into.File = r.join(s)
	}}
}

func audit() kind[Audit] {
	plain := textOf("off \\| log \\| file:PATH", "off, log or file:PATH", true, schema{"type": "string", "pattern": "^(off|log|file:.+)$"}, auditKind)
	show := func(a *Audit) *shown {
		switch {
		case a.Log:
			return &shown{text: "log"}
		case a.File != "":
			return &shown{text: "file:" + absolute(a.File)}
		}
		return &shown{text: "off"}
	}
	return kind[Audit]{word: plain.word, schema: plain.schema, show: show, read: func(r *reader, at place, into *Audit) {
		var s string
		plain.read(r, at, &s)
		name, isFile := strings.CutPrefix(s, "file:")
		*into = Audit{Log: s == "log"}
		if isFile {
			into.File = r.join(name)
		}
	}}
}

// withDefaults is a group whose defaults hold where it is missing, too.
func withDefaults[T any](what string, keys []key[T]) kind[T] {
	k := group(what, keys, nil)
	k.fill = true
	plain := k.read
	k.read = func(r *reader, at place, into *T) {
		if at.shape == given {
			at.node = &node{shape: object, mark: at.mark}
		}
		plain(r, at, into)
	}
	return k
}

// inherited is a group of a route that keeps what defaults say where it does
// not: the defaults of its keys are those of defaults alone.
func inherited[T any](what string, keys []key[T]) kind[T] {
	k := withDefaults(what, keys)
	without := group(what, lift(keys, func(t *T) *T { return t }, "as in `defaults`"), nil)
	plain := k.read
	k.read = func(r *reader, at place, into *T) {
		if strings.HasPrefix(at.path, "routes[") {
			without.read(r, at, into)
			return
		}
		plain(r, at, into)
	}
	return k
}

// defaults are kept for the routes, which are read after them.
func defaults() kind[Policies] {
	k := withDefaults("defaults", policyKeys)
	k.show = nil // the routes say it all
	plain := k.read
	k.read = func(r *reader, at place, into *Policies) {
		plain(r, at, into)
		r.defaults = *into
	}
	return k
}

// routes begin with what defaults say.
func routes() kind[[]rawRoute] {
	one := group("a route", routeKeys, oneUpstream)
	plain := one.read
	one.read = func(r *reader, at place, into *rawRoute) {
		into.Policies = r.defaults
		plain(r, at, into)
	}
	all := some(listOf(one, maxRoutes))
	all.example = "[{path: /mcp, upstream: https://HOST/PATH}]"
	return all
}

// urlOrGroup is an upstream, or its URL alone.
func urlOrGroup() kind[Upstream] {
	whole := group("an upstream", upstreamKeys, oneServer)
	return kind[Upstream]{word: "URL or group", parts: whole.parts, schema: schema{"anyOf": []any{byURL.schema, whole.schema}}, read: func(r *reader, at place, into *Upstream) {
		if at.shape == object {
			whole.read(r, at, into)
			return
		}
		if at.shape != text {
			r.want(at, "the URL of a server, or the keys of an upstream")
			return
		}
		whole.read(r, place{at.path, &node{shape: object, mark: at.mark, members: []member{{"url", at.mark, at.node}}}}, into)
	}}
}

func versionRange() kind[string] {
	return textOf("version", "a version, such as 1.4.2, or comparisons such as >=1.2 <2", true, schema{"type": "string"}, func(v string) string {
		if _, err := translate.ParseVersionRange(v); err != nil || len(v) > 128 {
			return "is no version; want one such as 1.4.2 or 1.*, or comparisons such as >=1.2 <2"
		}
		return ""
	})
}
