package report

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"

	"taskbridge/translate/check"
)

// SARIF 2.1.0 (OASIS), as much of it as a finding needs.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID            string       `json:"id"`
	Short         sarifText    `json:"shortDescription"`
	HelpURI       string       `json:"helpUri,omitempty"`
	Configuration sarifDefault `json:"defaultConfiguration"`
}

type sarifDefault struct {
	Level string `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID     string          `json:"ruleId"`
	RuleIndex  *int            `json:"ruleIndex,omitempty"`
	Level      string          `json:"level"`
	Message    sarifText       `json:"message"`
	Locations  []sarifLocation `json:"locations,omitempty"`
	Properties map[string]any  `json:"properties,omitempty"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

// restRule is the rule of the one result that counts those left out.
const restRule = "report/more"

func (f *Findings) sarif() error {
	run := sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "taskbridge", Version: Text(f.Version, 0)}
	index := map[string]int{}
	rules := check.Rules()
	for i := range rules {
		r := &rules[i]
		index[r.ID] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: r.ID, Short: sarifText{r.Says}, HelpURI: r.Reference(true).URL, Configuration: sarifDefault{r.Severity.String()},
		})
	}
	uri := fileURI(f.Capture)
	for i := range f.kept {
		x := &f.kept[i]
		at := index[x.Rule.ID]
		text := x.Message
		if x.See > 0 {
			text += fmt.Sprintf(" (see line %d)", x.See)
		}
		props := map[string]any{"side": string(x.Side)}
		if x.Leg != 0 {
			props["leg"] = x.Leg.String()
		}
		if ref := x.Reference(); ref.URL != "" {
			props["specification"], props["url"] = ref.Text, ref.URL
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: x.Rule.ID, RuleIndex: &at, Level: x.Severity.String(), Message: sarifText{Text(text, 2000)}, Properties: props,
			Locations: []sarifLocation{{sarifPhysical{sarifArtifact{uri}, sarifRegion{max(x.Line, 1)}}}},
		})
	}
	if f.rest > 0 {
		run.Results = append(run.Results, sarifResult{
			RuleID: restRule, Level: "note", Message: sarifText{fmt.Sprintf("%d more findings are not listed", f.rest)},
		})
	}
	e := json.NewEncoder(f.w)
	e.SetIndent("", " ")
	return e.Encode(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run},
	})
}

// fileURI names a file as SARIF wants it: relative to where the command ran.
func fileURI(name string) string {
	u := url.URL{Path: filepath.ToSlash(name)}
	return u.String()
}
