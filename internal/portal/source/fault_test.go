package source_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"chaperone/internal/portal/source"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/sourcetest"
)

// wired is a source whose server is behind a proxy, and an item in it.
type wired struct {
	rig
	proxy *sourcetest.Proxy
	p     source.Place
	id    string
}

// networks answers every source that has a network between itself and its server.
func networks(t *testing.T, f func(t *testing.T, w wired)) {
	t.Run("s3", func(t *testing.T) {
		g := sourcetest.S3(t)
		proxy := sourcetest.Through(t, g.Host)
		s, err := source.NewS3(s3Config(t, "http://"+proxy.Address, g))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		r := writable(rig{Source: s, stop: s.Stop, place: freshPlace})
		p := r.place(t)
		r.seed(t, p, "item")
		f(t, wired{r, proxy, p, "item"})
	})
	for _, how := range []string{source.TLSNone, source.TLSAlways, source.TLSStart} {
		t.Run("imap "+how, func(t *testing.T) {
			d := sourcetest.IMAP(t)
			user, target := d.User(t), d.Clear
			if how == source.TLSAlways {
				target = d.TLS
			}
			proxy := sourcetest.Through(t, target)
			s, err := source.NewIMAP(imapConfig(t, d, how, proxy.Address, user))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			d.Put(t, user, string(message("hello")))
			p := source.Place{Account: source.Account{Tenant: "local", Actor: user}, Collection: "inbox", Incarnation: "1"}
			all, _ := list(t, s, p, 10, source.Query{})
			f(t, wired{rig{Source: s}, proxy, p, all[0].Item})
		})
	}
	t.Run("webdav", func(t *testing.T) {
		d := sourcetest.WebDAV(t)
		url, dir := d.Folder(t)
		if err := os.WriteFile(filepath.Join(dir, "item.txt"), []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
		proxy := sourcetest.Through(t, d.Host)
		s := davThrough(t, "webdav", proxy, url[len("http://"+d.Host):], "davuser")
		f(t, wired{rig{Source: s}, proxy, davPlace, "item.txt"})
	})
	t.Run("caldav", func(t *testing.T) {
		d := sourcetest.CalDAV(t)
		user, home := d.User(t)
		d.Calendar(t, user, home+"main/")
		d.Do(t, user, "PUT", home+"main/e.ics", "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:e\r\nDTSTAMP:20261130T080000Z\r\nDTSTART:20261201T080000Z\r\nSUMMARY:e\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", "Content-Type", "text/calendar")
		proxy := sourcetest.Through(t, d.Host)
		s := davThrough(t, "caldav", proxy, "/"+user+"/main/", user)
		f(t, wired{rig{Source: s}, proxy, davPlace, "e.ics"})
	})
}

var davPlace = source.Place{Account: source.Account{Tenant: "local", Actor: "owner"}, Collection: "main", Incarnation: "1"}

func davThrough(t *testing.T, kind string, proxy *sourcetest.Proxy, path, user string) *source.DAV {
	t.Helper()
	s, err := source.NewWebDAV(source.DAVConfig{Collection: "main", Kind: kind, URL: "http://" + proxy.Address + path,
		Logins: []source.Login{{Actor: "owner", Username: user, PasswordFile: sourcetest.Secret(t, sourcetest.Password)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestFaults: whatever stands between, each call ends by its deadline with a code
// of its own, and the source works again once the fault is over.
func TestFaults(t *testing.T) {
	names := map[sourcetest.Fault]string{sourcetest.Hang: "hang", sourcetest.Mute: "mute", sourcetest.Cut: "cut",
		sourcetest.Garble: "garble", sourcetest.Trickle: "trickle", sourcetest.Refuse: "refuse"}
	networks(t, func(t *testing.T, w wired) {
		for fault, name := range names {
			t.Run(name, func(t *testing.T) {
				now, err := w.Stat(usual(t), w.p, w.id)
				want(t, err, "")
				w.proxy.Set(t, fault)
				const patience = 700 * time.Millisecond
				ops := map[string]func() error{
					"stat":  func() error { _, err := w.Stat(within(t, patience), w.p, w.id); return err },
					"read":  func() error { _, err := w.Read(within(t, patience), w.p, w.id, 0, 100); return err },
					"list":  func() error { _, err := w.List(within(t, patience), w.p, source.Query{Limit: 10}); return err },
					"count": func() error { _, _, err := w.Count(within(t, patience), w.p); return err },
				}
				if slices.Contains(w.Functions(), tool.WriteItem) {
					ops["write"] = func() error {
						_, err := w.Write(within(t, patience), w.p, source.Write{Item: w.id, Metadata: map[string]any{"seen": true}, IfVersion: now.Version, Mark: mark()})
						return err
					}
				}
				for what, op := range ops {
					begun := time.Now()
					c := code(t, op())
					took := time.Since(begun)
					if took > patience+1500*time.Millisecond {
						t.Errorf("%s took %v", what, took)
					}
					if fault == sourcetest.Refuse && took > patience {
						t.Errorf("%s took %v though nothing listens", what, took)
					}
					allowed := []refusal.Code{tool.SourceUnavailable}
					if what == "write" {
						allowed = append(allowed, tool.UnknownOutcome)
					}
					if fault == sourcetest.Garble { // a turned byte may also be a lie that reads well
						allowed = append(allowed, tool.NotFound, tool.SourceDisconnected, tool.TooLarge, tool.VersionConflict, tool.InvalidInput)
						if c == "" && (what == "read" || what == "list" || what == "stat" || what == "count") {
							continue
						}
					}
					if !slices.Contains(allowed, c) {
						t.Errorf("%s: %q, want one of %v", what, c, allowed)
					}
				}
				w.proxy.Set(t, sourcetest.Pass)
				for try := 0; ; try++ {
					if _, err := w.Stat(usual(t), w.p, w.id); err == nil {
						break
					} else if try == 3 {
						t.Fatalf("after the fault: %v", err)
					}
				}
			})
		}
	})
}

// TestLostAnswers: the change arrives and its answer doesn't. It is told as unknown,
// and settled as done, once.
func TestLostAnswers(t *testing.T) {
	networks(t, func(t *testing.T, w wired) {
		if !slices.Contains(w.Functions(), tool.WriteItem) {
			t.Log("only read")
			return
		}
		for n := range 3 {
			now, err := w.Stat(usual(t), w.p, w.id)
			want(t, err, "")
			change := source.Write{Item: w.id, Metadata: map[string]any{"flagged": n%2 == 0}, IfVersion: now.Version, Mark: mark()}
			stop := w.Source.(interface {
				Stop(func(string) error)
			}).Stop
			stop(func(step string) error { // from here on, answers are lost
				if step == "looked" {
					w.proxy.Set(t, sourcetest.Mute)
				}
				return nil
			})
			_, err = w.Write(within(t, time.Second), w.p, change)
			stop(nil)
			if c := code(t, err); c != tool.UnknownOutcome {
				t.Errorf("round %d: %q, want unknown_outcome", n, c)
			}
			w.proxy.Set(t, sourcetest.Cut)
			w.proxy.Set(t, sourcetest.Pass)
			var settled source.Settled
			var done source.Written
			for range 50 { // the server may still be at it
				if done, settled, err = w.Settle(usual(t), w.p, change); err == nil && settled == source.Done {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if err != nil || settled != source.Done || done.Before != now.Version {
				t.Errorf("round %d: %+v %q %v", n, done, settled, err)
			}
		}
	})
}

// TestDisconnected: what needs a person's hand is told at once, and as that.
func TestDisconnected(t *testing.T) {
	d, g, dav := sourcetest.IMAP(t), sourcetest.S3(t), sourcetest.WebDAV(t)
	user := d.User(t)
	url, _ := dav.Folder(t)
	wrong := sourcetest.Secret(t, "wrong")
	imap := imapConfig(t, d, source.TLSAlways, d.TLS, user)
	imap.Logins[0].PasswordFile = t.TempDir() + "/none"
	noBucket, badSecret := s3Config(t, "http://"+g.Host, g), s3Config(t, "http://"+g.Host, g)
	noBucket.Bucket, badSecret.SecretKeyFile = "no-such-bucket", wrong
	for name, open := range map[string]func() (source.Source, error){
		"imap, no secret":    func() (source.Source, error) { return source.NewIMAP(imap) },
		"s3, no bucket":      func() (source.Source, error) { return source.NewS3(noBucket) },
		"s3, other secret":   func() (source.Source, error) { return source.NewS3(badSecret) },
		"webdav, no sign-in": func() (source.Source, error) { return source.NewWebDAV(davConfig(url, "davuser", wrong)) },
		"webdav, no folder": func() (source.Source, error) {
			return source.NewWebDAV(davConfig(url+"none/", "davuser", sourcetest.Secret(t, sourcetest.Password)))
		},
	} {
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.(interface{ Close() error }).Close() })
		p := source.Place{Account: source.Account{Tenant: "local", Actor: "owner"}, Collection: "main", Incarnation: "1"}
		if name == "imap, no secret" {
			p.Account.Actor = user
		}
		begun := time.Now()
		_, err = s.List(usual(t), p, source.Query{Limit: 10})
		if c := code(t, err); c != tool.SourceDisconnected || time.Since(begun) > 3*time.Second {
			t.Errorf("%s: %q after %v", name, c, time.Since(begun))
		}
		// Nobody else has it.
		p.Account.Actor = "stranger"
		if _, err := s.List(usual(t), p, source.Query{Limit: 10}); err == nil && name[:2] != "s3" {
			t.Errorf("%s: a stranger lists it", name)
		}
	}
}

func davConfig(url, user, secret string) source.DAVConfig {
	return source.DAVConfig{Collection: "main", Kind: "webdav", URL: url, Logins: []source.Login{{Actor: "owner", Username: user, PasswordFile: secret}}}
}
