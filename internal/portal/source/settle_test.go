package source_test

import (
	"errors"
	"fmt"
	"testing"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
)

var errCrash = errors.New("the process is gone")

// steps records the names of the steps that one change goes through.
func steps(r rig, change func()) (all []string) {
	r.stop(func(step string) error { all = append(all, step); return nil })
	change()
	r.stop(nil)
	return all
}

// crashAt makes the change end at that step.
func crashAt(r rig, at string, change func()) {
	r.stop(func(step string) error {
		if step == at {
			return errCrash
		}
		return nil
	})
	change()
	r.stop(nil)
}

// TestSettleStorage ends each kind of change at each of its steps, and asks what
// became of it. What Settle says must be what is there.
func TestSettleStorage(t *testing.T) {
	storages(t, func(t *testing.T, r rig) {
		p := r.place(t)
		for _, kind := range []string{"create", "replace", "metadata", "delete"} {
			change := func(name string) (source.Write, func() error) {
				w := source.Write{Item: name, HasContent: true, Content: []byte("new " + name), IfAbsent: true, Mark: mark()}
				if kind == "create" {
					return w, func() error { _, err := r.Write(usual(t), p, w); return err }
				}
				r.hold(t, p, name, []byte("old "+name))
				i, err := r.Stat(usual(t), p, name)
				want(t, err, "")
				w.IfAbsent, w.IfVersion = false, i.Version
				if kind == "metadata" {
					w.HasContent, w.Content, w.Metadata = false, nil, map[string]any{"n": int64(1)}
				}
				if kind == "delete" {
					return w, func() error { return r.Delete(usual(t), p, name, w.IfVersion, w.Mark) }
				}
				return w, func() error { _, err := r.Write(usual(t), p, w); return err }
			}
			settle := func(w source.Write) (source.Written, source.Settled, error) {
				if kind == "delete" {
					s, err := r.SettleDelete(usual(t), p, w.Item, w.IfVersion, w.Mark)
					return source.Written{}, s, err
				}
				return r.Settle(usual(t), p, w)
			}
			w, do := change(kind + " first")
			all := steps(r, func() { want(t, do(), "") })
			if done, settled, err := settle(w); err != nil || settled != source.Done {
				t.Errorf("%s, whole: settled %q %v", kind, settled, err)
			} else if now, err := r.Stat(usual(t), p, w.Item); kind != "delete" && (err != nil || done.Version != now.Version || done.Before != w.IfVersion || done.Item != w.Item) {
				t.Errorf("%s, whole: settled %+v; it is %q", kind, done, now.Version)
			}
			for n, step := range all {
				w, do := change(fmt.Sprintf("%s %d", kind, n))
				before, _ := r.Stat(usual(t), p, w.Item)
				var err error
				crashAt(r, step, func() { err = do() })
				if c := code(t, err); c != tool.UnknownOutcome && c != tool.SourceUnavailable {
					t.Errorf("%s, ended at %s: %v", kind, step, err)
				}
				after, _ := r.Stat(usual(t), p, w.Item)
				happened := source.Not
				if after.Version != before.Version {
					happened = source.Done
				}
				if happened == source.Done && code(t, err) != tool.UnknownOutcome {
					t.Errorf("%s, ended at %s: it happened and %v was told", kind, step, err)
				}
				for range 2 { // asking changes nothing
					done, settled, err := settle(w)
					if err != nil || settled != happened {
						t.Errorf("%s, ended at %s: settled %q %v, want %q", kind, step, settled, err, happened)
					}
					if settled == source.Done && kind != "delete" && (done.Version != after.Version || done.Before != w.IfVersion) {
						t.Errorf("%s, ended at %s: settled %+v, it is %q", kind, step, done, after.Version)
					}
				}
			}
			t.Logf("%s goes through %v", kind, all)
		}
		t.Run("later", func(t *testing.T) { settleLater(t, r) })
	})
}

// settleLater asks for a write after others came.
func settleLater(t *testing.T, r rig) {
	p := r.place(t)
	r.hold(t, p, "x", []byte("0"))
	i, err := r.Stat(usual(t), p, "x")
	want(t, err, "")
	v := i.Version
	var all []source.Write
	for n := range 5 {
		w := source.Write{Item: "x", HasContent: true, Content: fmt.Append(nil, n), IfVersion: v, Mark: mark()}
		done, err := r.Write(usual(t), p, w)
		want(t, err, "")
		all, v = append(all, w), done.Version
	}
	for n, w := range all {
		done, settled, err := r.Settle(usual(t), p, w)
		if err != nil || settled != source.Done || done.Before != w.IfVersion {
			t.Errorf("write %d of 5: %+v %q %v", n, done, settled, err)
		}
		lost := w
		lost.Mark = mark() // one with the same condition that didn't win
		if _, settled, err := r.Settle(usual(t), p, lost); err != nil || settled != source.Not {
			t.Errorf("the loser beside write %d: %q %v", n, settled, err)
		}
	}
	gone := source.Write{Item: "y", HasContent: true, IfAbsent: true, Mark: mark()}
	if _, settled, err := r.Settle(usual(t), p, gone); err != nil || settled != source.Not {
		t.Errorf("a create that never came: %q %v", settled, err)
	}
}

// TestSettleMail ends changes of flags and moves at each of their steps.
func TestSettleMail(t *testing.T) {
	mailboxes(t, func(t *testing.T, r rig) {
		for kind, metadata := range map[string]map[string]any{
			"flags": {"seen": true}, "keywords": {"keywords": []any{"k"}, "flagged": true}, "move": {"folder": "Archive", "answered": true},
		} {
			p := r.place(t)
			n := 0
			change := func() (source.Write, func() error) {
				n++
				name := fmt.Sprintf("%s-%d", kind, n)
				r.seed(t, p, name)
				all, _ := list(t, r, p, 100, source.Query{Query: name})
				if len(all) != 1 {
					t.Fatalf("%s: %v", name, titles(all))
				}
				w := source.Write{Item: all[0].Item, Metadata: metadata, IfVersion: all[0].Version, Mark: mark()}
				return w, func() error { _, err := r.Write(usual(t), p, w); return err }
			}
			w, do := change()
			all := steps(r, func() { want(t, do(), "") })
			if kind != "move" {
				if done, settled, err := r.Settle(usual(t), p, w); err != nil || settled != source.Done || done.Before != w.IfVersion {
					t.Errorf("%s, whole: %+v %q %v", kind, done, settled, err)
				}
			}
			for _, step := range all {
				w, do := change()
				var err error
				crashAt(r, step, func() { err = do() })
				if c := code(t, err); c != tool.UnknownOutcome && c != tool.SourceUnavailable {
					t.Errorf("%s, ended at %s: %v", kind, step, err)
				}
				now, gone := r.Stat(usual(t), p, w.Item)
				done, settled, err := r.Settle(usual(t), p, w)
				want(t, err, "")
				switch {
				case gone == nil && now.Version == w.IfVersion:
					if settled != source.Not {
						t.Errorf("%s, ended at %s before anything: settled %q", kind, step, settled)
					}
				case settled == source.Not:
					t.Errorf("%s, ended at %s: something changed and it is settled as not", kind, step)
				case settled == source.Done:
					if is, err := r.Stat(usual(t), p, done.Item); err != nil || is.Version != done.Version {
						t.Errorf("%s, ended at %s: settled %+v, and there is %q %v", kind, step, done, is.Version, err)
					}
				case kind != "move" || step != "claimed":
					t.Errorf("%s, ended at %s: settled %q", kind, step, settled)
				}
			}
			t.Logf("%s goes through %v", kind, all)
		}
	})
}
