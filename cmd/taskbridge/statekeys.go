package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"taskbridge/session"
)

// newHandles makes what seals, with the configured keys. Records in the store
// have names of their own secret, so that they are found whatever the keys are.
func newHandles(ctx context.Context, st session.Store, configured [][]byte) (*session.Handles, error) {
	own, err := session.RandomStateKey(ctx, st)
	if err != nil {
		return nil, err
	}
	h, err := session.NewHandles(sealingKeys(configured, own))
	if err == nil {
		h.KeepMarks(own)
	}
	return h, err
}

// sealingKeys are the configured keys, else the store's own.
func sealingKeys(configured [][]byte, own []byte) [][]byte {
	if len(configured) == 0 {
		return [][]byte{own}
	}
	return configured
}

// changeKeys has handles sealed with other keys. It is the last of a reload's
// changes that can fail.
func (b *bridge) changeKeys(ctx context.Context, c *bridgeConfig) error {
	own, err := session.RandomStateKey(ctx, b.store)
	if err != nil {
		return err
	}
	return b.handles.SetKeys(sealingKeys(c.stateKeys, own), time.Now())
}

// watchKeys says which keys were taken out though what they sealed may be in
// use, and has them forgotten when it is not. before are those that were out.
func (b *bridge) watchKeys(before []session.RetiredKey) {
	retired := b.handles.Retired()
	taken := slices.DeleteFunc(slices.Clone(retired), func(k session.RetiredKey) bool { return slices.Contains(before, k) })
	if len(taken) > 0 {
		tasks, _ := b.keysInUse()
		for _, k := range taken {
			b.log.Warn("a state key was taken out of the configuration: it seals no more, but opens what it sealed until that is over; to end it at once restart the proxy",
				"tasks", tasks[k.Mark], "at_least", b.remembered())
		}
	}
	if len(retired) > 0 && !b.forgetting { // under changing
		b.forgetting = true
		b.wg.Go(b.forgetKeys)
	}
}

// forgetEvery is how often keys that were taken out are looked at.
const forgetEvery = time.Minute

func (b *bridge) forgetKeys() {
	t := time.NewTicker(forgetEvery)
	defer t.Stop()
	for {
		select {
		case <-b.done:
			return
		case now := <-t.C:
			if !b.forgetUnused(now) {
				return
			}
		}
	}
}

// forgetUnused forgets the keys that were taken out and have nothing left to
// open: states and cursors, of which nothing is kept here, have had their time,
// and no task is remembered that has a handle of theirs. False: there are no
// such keys any more.
func (b *bridge) forgetUnused(now time.Time) (left bool) {
	if !b.changing.TryLock() { // a reload may keep close waiting, or close us
		return true
	}
	defer b.changing.Unlock()
	due := slices.DeleteFunc(b.handles.Retired(), func(k session.RetiredKey) bool { return now.Sub(k.Since) < b.remembered() })
	if len(due) > 0 {
		tasks, err := b.keysInUse()
		for _, k := range due {
			if err == nil && tasks[k.Mark] == 0 {
				b.handles.Forget(k)
				b.log.Info("a state key that was taken out opens nothing any more")
			}
		}
	}
	b.forgetting = len(b.handles.Retired()) > 0
	return b.forgetting
}

// keysInUse counts the tasks of all routes by the key of their handles.
func (b *bridge) keysInUse() (map[string]int, error) {
	all := map[string]int{}
	for _, r := range b.present() {
		tasks, err := r.hub.HandleKeys()
		if err != nil {
			return nil, err
		}
		for mark, n := range tasks {
			all[mark] += n
		}
	}
	return all, nil
}

// remembered is how long what one of the routes gave callers is known at least.
func (b *bridge) remembered() (longest time.Duration) {
	for _, r := range b.present() {
		longest = max(longest, r.policy.Remembered())
	}
	return longest
}

// present are the routes there are, and those that leave.
func (b *bridge) present() []*route {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(b.routes, slices.Collect(maps.Values(b.leaving)))
}
