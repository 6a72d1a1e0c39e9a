package config

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// builder makes nodes of what the library parsed. What an alias stands for is
// shared and not copied.
type builder struct {
	p       *problems
	anchors map[string]*node
	failed  bool
}

// fail ends the work: what follows would be guesses.
func (b *builder) fail(tk *token.Token, format string, args ...any) *node {
	m := markOf(tk)
	b.p.add(m, "", format, args...)
	b.failed = true
	return &node{mark: m}
}

func (b *builder) node(n ast.Node, depth int) *node {
	if n == nil {
		return &node{}
	}
	if depth > 2*maxDepth {
		return b.fail(n.GetToken(), "is nested more than %d levels deep; nothing here needs that", maxDepth)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return b.object(n, n.Values, depth)
	case *ast.MappingValueNode:
		return b.object(n, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out := &node{shape: list, mark: markOf(n.Start)}
		for _, v := range n.Values {
			out.items = append(out.items, b.node(v, depth+1))
		}
		return out
	case *ast.AnchorNode:
		return b.anchor(n, depth)
	case *ast.AliasNode:
		return b.alias(n)
	case *ast.TagNode:
		return b.tag(n, depth)
	}
	return b.scalar(n)
}

func (b *builder) scalar(n ast.Node) *node {
	tk := n.GetToken()
	out := &node{mark: markOf(tk)}
	switch n := n.(type) {
	case *ast.StringNode:
		out.shape, out.text = text, n.Value
	case *ast.LiteralNode:
		out.shape, out.mark = text, markOf(n.Start)
		if n.Value != nil {
			out.text = n.Value.Value
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.shape, out.text = number, tk.Value
	case *ast.BoolNode:
		out.shape, out.text = boolean, tk.Value
	case *ast.NullNode:
		out.text = tk.Value
	default:
		return b.fail(tk, "stands where no value can; check its indentation")
	}
	return out
}

func (b *builder) anchor(n *ast.AnchorNode, depth int) *node {
	out := b.node(n.Value, depth+1)
	if n.Name != nil && n.Name.GetToken() != nil {
		b.anchors[n.Name.GetToken().Value] = out
	}
	return out
}

func (b *builder) alias(n *ast.AliasNode) *node {
	name := ""
	if n.Value != nil && n.Value.GetToken() != nil {
		name = n.Value.GetToken().Value
	}
	to, ok := b.anchors[name]
	if !ok {
		return b.fail(n.Start, "*%s names no anchor; it must stand further up as &%s, or put quotes around a text that begins with *", name, name)
	}
	out := *to
	out.mark = markOf(n.Start)
	return &out
}

// tag: of all tags only !!str says something a configuration can use.
func (b *builder) tag(n *ast.TagNode, depth int) *node {
	out := b.node(n.Value, depth+1)
	if n.Start == nil || n.Start.Value != "!!str" || out.shape == list || out.shape == object {
		return b.fail(n.Start, "a tag, such as !x, means nothing here; leave it out, or put quotes around a text that begins with !")
	}
	out.shape = text
	return out
}

// object takes members that are written out before those merged with <<.
func (b *builder) object(n ast.Node, values []*ast.MappingValueNode, depth int) *node {
	out := &node{shape: object, mark: markOf(n.GetToken())}
	if len(values) > 0 && values[0].Key != nil {
		if m, ok := n.(*ast.MappingNode); !ok || !m.IsFlowStyle {
			out.mark = markOf(values[0].Key.GetToken())
		}
	}
	seen := map[string]mark{}
	var merged []*node
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, b.merge(v, depth)...)
			continue
		}
		key, m, ok := b.key(v.Key)
		if !ok {
			return out
		}
		value := b.node(v.Value, depth+1)
		if first, twice := seen[key]; twice {
			b.p.add(m, "", "key %s is given twice, first on line %d; remove one of them", quote(key), first.line)
			continue
		}
		seen[key] = m
		out.members = append(out.members, member{key, m, value})
	}
	for _, from := range merged {
		for _, m := range from.members {
			if _, ok := seen[m.key]; !ok && len(out.members) <= maxKeys {
				seen[m.key] = m.mark
				out.members = append(out.members, m)
			}
		}
	}
	return out
}

// merge returns the mappings behind <<.
func (b *builder) merge(v *ast.MappingValueNode, depth int) []*node {
	n := b.node(v.Value, depth+1)
	all := []*node{n}
	if n.shape == list {
		all = n.items
	}
	for _, one := range all {
		if one.shape != object {
			b.fail(v.Key.GetToken(), "<< merges groups of keys; write <<: *NAME for an anchor of such a group")
			return nil
		}
	}
	return all
}

func (b *builder) key(k ast.MapKeyNode) (string, mark, bool) {
	var n ast.Node = k
	if q, ok := n.(*ast.MappingKeyNode); ok {
		n = q.Value
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, markOf(n.Token), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, markOf(n.GetToken()), true
	}
	var tk *token.Token
	if n != nil {
		tk = n.GetToken()
	}
	b.fail(tk, "a key must be a plain word")
	return "", mark{}, false
}
