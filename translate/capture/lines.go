package capture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineReader reads the lines of a file and counts them.
type lineReader struct {
	br   *bufio.Reader
	line int
	cut  bool // the last line has no line end
}

func newLineReader(r io.Reader) lineReader {
	return lineReader{br: bufio.NewReaderSize(r, 64<<10)}
}

// next reads a line without its end, skipping empty ones.
func (c *lineReader) next() ([]byte, error) {
	for {
		var line []byte
		for {
			part, err := c.br.ReadSlice('\n')
			line = append(line, part...)
			if err == nil {
				break
			}
			if err == io.EOF && len(line) > 0 {
				c.cut = true
				break // the next read says that it is the end
			}
			if err == errDamaged {
				return nil, &FormatError{c.line + 1, err}
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
			if len(line) > MaxLine {
				return nil, &FormatError{c.line + 1, fmt.Errorf("longer than %d bytes", MaxLine)}
			}
		}
		c.line++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}
