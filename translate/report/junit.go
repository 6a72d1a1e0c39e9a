package report

import (
	"encoding/xml"
	"io"
	"time"
)

// Case is one test of a JUnit report. At most one of Failure, Error and Skipped
// is set: Failure where something was compared or checked and is not as it
// should be, Error where that could not be done.
type Case struct {
	// Class groups cases, Name tells them apart.
	Class, Name string
	Time        time.Duration
	Failure     *Problem
	Error       *Problem
	Skipped     string
}

// Problem is what is wrong with a case: one line, its kind, and the details.
type Problem struct {
	Message, Kind, Details string
}

// Suite is a named list of cases.
type Suite struct {
	Name  string
	Cases []Case
}

type xmlProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

type xmlSkipped struct {
	Message string `xml:"message,attr"`
}

type xmlCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Time    string      `xml:"time,attr,omitempty"`
	Failure *xmlProblem `xml:"failure"`
	Error   *xmlProblem `xml:"error"`
	Skipped *xmlSkipped `xml:"skipped"`
}

type xmlSuite struct {
	Name     string    `xml:"name,attr"`
	Tests    int       `xml:"tests,attr"`
	Failures int       `xml:"failures,attr"`
	Errors   int       `xml:"errors,attr"`
	Skipped  int       `xml:"skipped,attr"`
	Cases    []xmlCase `xml:"testcase"`
}

type xmlSuites struct {
	XMLName xml.Name   `xml:"testsuites"`
	Suites  []xmlSuite `xml:"testsuite"`
}

// JUnit writes suites as the XML that CI systems read. Text is escaped first as
// for a terminal, then for XML: a character XML has no place for (U+0001) stands
// there as an escape.
func JUnit(w io.Writer, suites ...Suite) error {
	var out xmlSuites
	for _, s := range suites {
		x := xmlSuite{Name: Text(s.Name, 0), Tests: len(s.Cases)}
		for _, c := range s.Cases {
			k := xmlCase{Class: Text(c.Class, 0), Name: Text(c.Name, 0), Failure: c.Failure.xml(), Error: c.Error.xml()}
			if c.Time > 0 {
				k.Time = Seconds(c.Time)
			}
			switch {
			case c.Failure != nil:
				x.Failures++
			case c.Error != nil:
				x.Errors++
			case c.Skipped != "":
				x.Skipped++
				k.Skipped = &xmlSkipped{Text(c.Skipped, 0)}
			}
			x.Cases = append(x.Cases, k)
		}
		out.Suites = append(out.Suites, x)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (p *Problem) xml() *xmlProblem {
	if p == nil {
		return nil
	}
	return &xmlProblem{Message: Text(p.Message, 0), Type: Text(p.Kind, 0), Text: lines(p.Details)}
}
