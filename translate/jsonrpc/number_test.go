package jsonrpc

import (
	"math/big"
	"testing"
)

// FuzzNumber: keys of number ids, and Int, agree with exact arithmetic.
func FuzzNumber(f *testing.F) {
	f.Add("1.0", "10e-1")
	f.Add("-0", "0e5")
	f.Add("9007199254740991", "900719925474099.1e1")
	f.Add("0.0100e3", "1e1")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := exact(a), exact(b)
		if x == nil || y == nil {
			return
		}
		idA, _ := IDFromRaw([]byte(a))
		idB, _ := IDFromRaw([]byte(b))
		if equal := x.Cmp(y) == 0; equal != (idA.Key() == idB.Key()) || equal != Equal([]byte(a), []byte(b)) {
			t.Errorf("%s and %s: equal is %v, keys %s and %s", a, b, equal, idA.Key(), idB.Key())
		}
		safe := x.IsInt() && new(big.Int).Abs(x.Num()).Cmp(big.NewInt(maxSafeInt)) <= 0
		if got, ok := splitNumber([]byte(a)).int(); ok != safe || ok && got != x.Num().Int64() {
			t.Errorf("Int of %s is %d, %v", a, got, ok)
		}
	})
}

// exact is the value of a number token short enough to expand.
func exact(tok string) *big.Rat {
	if tok == "" || len(tok) > 40 || tok[0] != '-' && tok[0]-'0' > 9 {
		return nil
	}
	if end, msg := scanNumber([]byte(tok), 0); msg != "" || end != len(tok) {
		return nil
	}
	if n := splitNumber([]byte(tok)); n.bigExp != "" || n.exp > 500 || n.exp < -500 {
		return nil
	}
	x, ok := new(big.Rat).SetString(tok)
	if !ok {
		return nil
	}
	return x
}
