package main

import (
	"time"

	"github.com/spf13/pflag"

	"taskbridge/session"
)

// policyFlags say how work is carried from one era to the other, over whatever
// it comes.
type policyFlags struct {
	toolErrors, undeclared, park string
	handleAfter, inlineWait      time.Duration
	stateKeys                    []string
}

func (p *policyFlags) register(fs *pflag.FlagSet) {
	enumVar(fs, &p.toolErrors, "tool-errors", "failed", []string{"failed", "completed"}, "how a task whose tool reports an error looks to legacy clients")
	enumVar(fs, &p.park, "park", "state", []string{"state", "task"}, "what becomes of a modern client's call when a legacy server asks in it: state has the client call again with its answers; task makes a task of it for clients that know tasks")
	enumVar(fs, &p.undeclared, "undeclared-tasks", "drive", []string{"drive", "refuse"}, "what becomes of a plain call of a tool that runs only as a task")
	durationVar(fs, &p.handleAfter, "task-handle-after", 500*time.Millisecond, "how long a legacy task call waits for the server before it gets a task of ours")
	durationVar(fs, &p.inlineWait, "inline-wait", 0, "how long a fresh task of a legacy server may finish before a modern client gets its handle; 0 gives it at once")
	fs.StringArrayVar(&p.stateKeys, "state-key", nil, "`FILE` with the key that seals handles; the first seals, all open")
}

// apply puts the flags into c, whose routes are there. What is wrong is exit 2.
func (p *policyFlags) apply(fs *pflag.FlagSet, c *bridgeConfig) error {
	for i := range c.routes {
		policy := &c.routes[i].policy
		policy.ToolErrorsCompleted = p.toolErrors == "completed"
		policy.RefuseUndeclared = p.undeclared == "refuse"
		policy.ParkTask = p.park == "task"
		policy.TaskHandleAfter, policy.InlineWait = p.handleAfter, p.inlineWait
	}
	for _, name := range p.stateKeys {
		key, err := session.LoadStateKey(name)
		if err != nil {
			return usagef("%s: %w", where(fs, "state-key"), err)
		}
		c.stateKeys = append(c.stateKeys, key)
	}
	return nil
}
