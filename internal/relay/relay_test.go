package relay_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"chaperone/internal/refusal"
	"chaperone/internal/relay"
	"chaperone/internal/relaytest"
)

var key = bytes.Repeat([]byte{7}, 32)

// side is a node's work, as a test says it.
type side struct {
	asked func(ctx context.Context, topic string, body []byte) ([]byte, error)
	told  func(topic string, body []byte)
}

func (s side) Asked(ctx context.Context, topic string, body []byte) ([]byte, error) {
	return s.asked(ctx, topic, body)
}

func (s side) Told(topic string, body []byte) {
	if s.told != nil {
		s.told(topic, body)
	}
}

func echo(_ context.Context, topic string, body []byte) ([]byte, error) {
	return append([]byte(topic+":"), body...), nil
}

func dial(t *testing.T, s *relaytest.Server, node string, by side) *relay.NATS {
	t.Helper()
	return dialBy(t, s, node, key, by)
}

func dialBy(t *testing.T, s *relaytest.Server, node string, key []byte, by side) *relay.NATS {
	t.Helper()
	n, err := relay.Dial(t.Context(), relay.Options{Address: s.Address(), Node: node, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
		defer done()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := n.Serve(by); err != nil {
		t.Fatal(err)
	}
	return n
}

func want(t *testing.T, what string, err, is error) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("%s: %v, want %v", what, err, is)
	}
}

// A question reaches its node with as many bytes as it may have, and its answer, its
// refusal or its loss comes back; a hint reaches everybody else.
func TestQuestions(t *testing.T) {
	for name, o := range map[string]relaytest.Options{"password": {}, "nkey": {NKey: true}, "TLS": {TLS: true}} {
		t.Run(name, func(t *testing.T) {
			s := relaytest.Start(t, o)
			heard := make(chan string, 8)
			told := func(topic string, body []byte) { heard <- topic + ":" + string(body) }
			a := dial(t, s, "a.mark", side{echo, told})
			dial(t, s, "b.mark", side{func(ctx context.Context, topic string, body []byte) ([]byte, error) {
				switch topic {
				case "refused":
					return nil, fmt.Errorf("with words: %w", refusal.LeaseExpired)
				case "failed":
					return nil, errors.New("with words")
				case "long":
					return make([]byte, relay.MaxBody+1), nil
				}
				return echo(ctx, topic, body)
			}, told})
			full := make([]byte, relay.MaxBody)
			rand.Read(full)
			_, err := a.Ask(t.Context(), "b.mark", "hello", full) // whose answer is six bytes longer
			want(t, "an answer over the limit", err, refusal.TooLarge)
			if got, err := a.Ask(t.Context(), "b.mark", "hello", full[:relay.MaxBody-6]); err != nil || !bytes.Equal(got[6:], full[:relay.MaxBody-6]) {
				t.Errorf("as much as may be: %d bytes, %v", len(got), err)
			}
			for topic, code := range map[string]refusal.Code{"refused": refusal.LeaseExpired, "failed": refusal.Failed, "long": refusal.TooLarge} {
				_, err := a.Ask(t.Context(), "b.mark", topic, nil)
				if refusal.Of(err) != code || strings.Contains(fmt.Sprint(err), "words") {
					t.Errorf("%s: %v", topic, err)
				}
			}
			_, err = a.Ask(t.Context(), "b.mark", "hello", make([]byte, relay.MaxBody+1))
			want(t, "more than may be", err, refusal.TooLarge)
			start := time.Now()
			for _, nobody := range []string{"c.mark", "a b", ""} {
				_, err = a.Ask(t.Context(), nobody, "hello", nil)
				want(t, "nobody", err, relay.ErrGone)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("that nobody is there took %v", took)
			}
			a.Tell("look", []byte("here"))
			select {
			case h := <-heard:
				if h != "look:here" {
					t.Errorf("heard %q", h)
				}
			case <-time.After(10 * time.Second):
				t.Error("no hint came")
			}
			if err := a.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Who asks may leave: then the other side stops, at once where that can be told, and
// within seconds where who asked is just gone.
func TestLeaving(t *testing.T) {
	s := relaytest.Start(t, relaytest.Options{})
	began, ended := make(chan struct{}, 4), make(chan time.Time, 4)
	dial(t, s, "b", side{asked: func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- time.Now()
		return nil, ctx.Err()
	}})
	a := dial(t, s, "a", side{asked: echo})
	ctx, leave := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { _, err := a.Ask(ctx, "b", "wait", nil); over <- err }()
	<-began
	leave()
	at := time.Now()
	want(t, "left", <-over, context.Canceled)
	if took := (<-ended).Sub(at); took > 2*time.Second {
		t.Errorf("stopped after %v", took)
	}

	// Gone without a word: its connection is closed under it.
	gone, err := relay.Dial(t.Context(), relay.Options{Address: s.Address(), Node: "gone", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Serve(side{asked: echo}); err != nil {
		t.Fatal(err)
	}
	go func() { _, err := gone.Ask(context.Background(), "b", "wait", nil); over <- err }()
	<-began
	gone.Cut()
	at = time.Now()
	if took := (<-ended).Sub(at); took > 15*time.Second {
		t.Errorf("stopped after %v", took)
	}
	gone.Close(t.Context())
	want(t, "gone", <-over, relay.ErrLost)
}

// Who answers may be gone: a question that it never had is ErrGone, one that it may
// have worked at is ErrLost, within seconds. One that takes long and is worked at is
// neither.
func TestLosing(t *testing.T) {
	s := relaytest.Start(t, relaytest.Options{})
	began := make(chan struct{}, 4)
	wait := func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		began <- struct{}{}
		select {
		case <-ctx.Done():
		case <-time.After(7 * time.Second):
		}
		return []byte("late"), nil
	}
	a := dial(t, s, "a", side{asked: echo})
	dial(t, s, "slow", side{asked: wait})
	mortal, err := relay.Dial(t.Context(), relay.Options{Address: s.Address(), Node: "mortal", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	defer mortal.Close(t.Context())
	if err := mortal.Serve(side{asked: wait}); err != nil {
		t.Fatal(err)
	}
	slow, lost := make(chan error, 1), make(chan error, 1)
	go func() {
		got, err := a.Ask(t.Context(), "slow", "wait", nil)
		if err == nil && string(got) != "late" {
			err = fmt.Errorf("answered %q", got)
		}
		slow <- err
	}()
	go func() { _, err := a.Ask(t.Context(), "mortal", "wait", nil); lost <- err }()
	<-began
	<-began
	mortal.Cut()
	start := time.Now()
	want(t, "died", <-lost, relay.ErrLost)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("noticed after %v", took)
	}
	_, err = a.Ask(t.Context(), "mortal", "wait", nil)
	want(t, "dead", err, relay.ErrGone)
	if err := <-slow; err != nil {
		t.Errorf("a long one: %v", err)
	}
}

// While the server is down nothing is kept for later; once it is up all goes on.
func TestDown(t *testing.T) {
	s := relaytest.Start(t, relaytest.Options{})
	var asked atomic.Int64
	count := side{asked: func(ctx context.Context, topic string, body []byte) ([]byte, error) {
		asked.Add(1)
		return echo(ctx, topic, body)
	}}
	a := dial(t, s, "a", count)
	dial(t, s, "b", count)
	s.Down()
	for end := time.Now().Add(10 * time.Second); a.Err() == nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	want(t, "down", a.Err(), refusal.ChannelUnavailable)
	start := time.Now()
	for range 20 {
		_, err := a.Ask(t.Context(), "b", "hello", nil)
		want(t, "asked while down", err, relay.ErrGone)
		a.Tell("look", nil)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	s.Up()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, err := a.Ask(t.Context(), "b", "hello", []byte("again"))
		if err == nil && string(got) == "hello:again" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not up again: %v", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// A node that ends takes nothing new, finishes what it has, and is then gone.
func TestDrain(t *testing.T) {
	s := relaytest.Start(t, relaytest.Options{})
	began, resume := make(chan struct{}), make(chan struct{})
	b := dial(t, s, "b", side{asked: func(_ context.Context, topic string, _ []byte) ([]byte, error) {
		close(began)
		<-resume
		return []byte("done"), nil
	}})
	a := dial(t, s, "a", side{asked: echo})
	var all sync.WaitGroup
	all.Go(func() {
		if got, err := a.Ask(t.Context(), "b", "work", nil); err != nil || string(got) != "done" {
			t.Errorf("in flight: %q, %v", got, err)
		}
	})
	<-began
	all.Go(func() { b.Drain(t.Context()) })
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		ctx, done := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := a.Ask(ctx, "b", "work", nil)
		done()
		if errors.Is(err, relay.ErrGone) || time.Now().After(end) {
			want(t, "new", err, relay.ErrGone)
			break
		}
	}
	close(resume)
	all.Wait()
}

// More than a node works at are busy, at once.
func TestMost(t *testing.T) {
	s := relaytest.Start(t, relaytest.Options{})
	open := make(chan struct{})
	dial(t, s, "b", side{asked: func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		select {
		case <-open:
		case <-ctx.Done():
		}
		return nil, nil
	}})
	a := dial(t, s, "a", side{asked: echo})
	var all sync.WaitGroup
	var busy, done atomic.Int64
	for range relay.MostAsked + 50 {
		all.Go(func() {
			_, err := a.Ask(t.Context(), "b", "work", nil)
			switch {
			case err == nil:
				done.Add(1)
			case refusal.Of(err) == refusal.Busy:
				busy.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	for end := time.Now().Add(20 * time.Second); busy.Load() < 50 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	close(open)
	all.Wait()
	if busy.Load() != 50 || done.Load() != relay.MostAsked {
		t.Errorf("%d busy, %d done", busy.Load(), done.Load())
	}
}

// Whoever else may use the account reads nothing, is believed nothing, and can't
// move a message of a node's to another node.
func TestSealed(t *testing.T) {
	s := relaytest.Start(t, relaytest.Options{})
	var asked, told atomic.Int64
	b := dial(t, s, "b", side{func(ctx context.Context, topic string, body []byte) ([]byte, error) {
		asked.Add(1)
		return []byte("the answer"), nil
	}, func(string, []byte) { told.Add(1) }})
	a := dial(t, s, "a", side{asked: echo})
	dial(t, s, "c", side{asked: func(context.Context, string, []byte) ([]byte, error) {
		t.Error("another node was asked")
		return nil, nil
	}})
	other := dialBy(t, s, "other", bytes.Repeat([]byte{8}, 32), side{func(context.Context, string, []byte) ([]byte, error) {
		t.Error("a node with another key was asked")
		return nil, nil
	}, func(string, []byte) { t.Error("and was told") }})

	if got, err := other.Ask(t.Context(), "b", "work", nil); !errors.Is(err, relay.ErrGone) {
		t.Errorf("the node with another key: %q, %v", got, err)
	}

	spy, err := nats.Connect(s.URL(), nats.UserInfo("node", relaytest.Password))
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	seen := make(chan *nats.Msg, 64)
	if _, err := spy.ChanSubscribe("chaperone.>", seen); err != nil {
		t.Fatal(err)
	}
	spy.Flush()
	if _, err := a.Ask(t.Context(), "b", "work", []byte("the arguments")); err != nil {
		t.Fatal(err)
	}
	a.Tell("look", []byte("the arguments"))
	var question *nats.Msg
	for range 3 {
		m := <-seen
		if strings.Contains(string(m.Data), "the a") || strings.Contains(string(m.Data), "work") {
			t.Errorf("in the clear on %s", m.Subject)
		}
		if strings.HasSuffix(m.Subject, ".to.b") {
			question = m
		}
	}
	for _, forged := range [][]byte{nil, {}, {1}, {1, 1, 'a'}, []byte("work"), question.Data[:len(question.Data)-1]} {
		for _, subject := range []string{b.Roots() + ".to.b", b.Roots() + ".hint"} {
			spy.Publish(subject, forged)
		}
	}
	spy.Publish(b.Roots()+".to.c", question.Data) // for b, to c
	spy.Publish(b.Roots()+".hint", question.Data)
	spy.Flush()
	time.Sleep(100 * time.Millisecond)
	if asked.Load() != 1 || told.Load() != 1 {
		t.Errorf("asked %d times, told %d times", asked.Load(), told.Load())
	}
	text, err := relay.Seal(key, "a", "here", []byte("words"))
	if err != nil {
		t.Fatal(err)
	}
	if sender, got, err := relay.Open(key, "here", text); err != nil || sender != "a" || string(got) != "words" {
		t.Errorf("opened %q of %q, %v", got, sender, err)
	}
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= 1
		if _, _, err := relay.Open(key, "here", bad); err == nil {
			t.Errorf("byte %d changed, and it opens", i)
		}
	}
	if _, _, err := relay.Open(key, "there", text); err == nil {
		t.Error("it opens elsewhere")
	}
}

// What a server or an address must be, or nothing is dialled; and no error has the
// secret.
func TestRefused(t *testing.T) {
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := relaytest.Start(t, relaytest.Options{})
	with := func(s *relaytest.Server, change func(*relay.Address)) relay.Address {
		a := s.Address()
		if change != nil {
			change(&a)
		}
		return a
	}
	for name, c := range map[string]struct {
		address relay.Address
		want    string
	}{
		"anybody is let in":  {with(relaytest.Start(t, relaytest.Options{Open: true}), nil), "anybody"},
		"JetStream":          {with(relaytest.Start(t, relaytest.Options{JetStream: true}), nil), "JetStream"},
		"short messages":     {with(relaytest.Start(t, relaytest.Options{Payload: 65_536}), nil), "max_payload"},
		"may not subscribe":  {with(relaytest.Start(t, relaytest.Options{Deny: "chaperone.>"}), nil), "allowed"},
		"another's password": {with(good, func(a *relay.Address) { a.CredentialsFile = file("node:another", 0o600) }), "doesn't take"},
		"an nkey of nobody's": {with(good, func(a *relay.Address) {
			a.CredentialsFile = relaytest.Start(t, relaytest.Options{NKey: true}).Credentials
		}), "doesn't take"},
		"a file for others": {with(good, func(a *relay.Address) { a.CredentialsFile = file("node:secret", 0o644) }), "chmod"},
		"no file":           {with(good, func(a *relay.Address) { a.CredentialsFile = "/nowhere" }), "relay_credentials_file"},
		"no secret":         {with(good, func(a *relay.Address) { a.CredentialsFile = file("nothing", 0o600) }), "must hold"},
		"no seed":           {with(good, func(a *relay.Address) { a.CredentialsFile = file("SUsecretsecret", 0o600) }), "seed"},
		"nothing named":     {with(good, func(a *relay.Address) { a.CredentialsFile = "" }), "relay_credentials_file"},
		"nobody there":      {with(good, func(a *relay.Address) { a.URL = "nats://localhost:1" }), "no server"},
		"no TLS there":      {with(good, func(a *relay.Address) { a.URL = strings.Replace(a.URL, "nats:", "tls:", 1) }), "TLS"},
		"another's CA": {with(relaytest.Start(t, relaytest.Options{TLS: true}), func(a *relay.Address) {
			a.CAFile = relaytest.Start(t, relaytest.Options{TLS: true}).CA
		}), "certificate"},
		"in the clear":        {relay.Address{URL: "nats://nats.example.com:4222", CredentialsFile: "x"}, "tls://"},
		"in the clear, one":   {relay.Address{URL: "tls://a.example.com,nats://10.0.0.1", CredentialsFile: "x"}, "tls://"},
		"a secret in it":      {relay.Address{URL: "tls://user:secret@nats.example.com", CredentialsFile: "x"}, "file"},
		"another protocol":    {relay.Address{URL: "ws://localhost", CredentialsFile: "x"}, "embedded"},
		"nothing":             {relay.Address{CredentialsFile: "x"}, "embedded"},
		"alone with a secret": {relay.Address{URL: relay.Embedded, CredentialsFile: "x"}, "are for"},
		"a CA for nothing":    {relay.Address{URL: "nats://localhost", CredentialsFile: "x", CAFile: "y"}, "tls://"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := relay.Dial(t.Context(), relay.Options{Address: c.address, Node: "a", Key: key})
			if err == nil {
				err = n.Serve(side{asked: echo})
				n.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secretsecret") || strings.Contains(err.Error(), "user:secret") || strings.Contains(err.Error(), "another@") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := relay.Dial(t.Context(), relay.Options{Address: good.Address(), Node: "a b", Key: key}); err == nil {
		t.Error("any name will do")
	}
	if _, err := relay.Dial(t.Context(), relay.Options{Address: good.Address(), Node: "a", Key: key[:31]}); err == nil {
		t.Error("any key will do")
	}
	for _, a := range []relay.Address{{URL: relay.Embedded}, {URL: "nats://127.0.0.1:4222", CredentialsFile: "x"}, {URL: "nats://[::1]:4222", CredentialsFile: "x"},
		{URL: "tls://a.example.com:4222,tls://b.example.com:4222", CredentialsFile: "x", CAFile: "y"}} {
		if err := a.Check(); err != nil {
			t.Errorf("%s: %v", a.URL, err)
		}
	}
}

// A node alone has nobody, and needs nothing.
func TestAlone(t *testing.T) {
	var b relay.Bus = relay.Alone{}
	if err := errors.Join(b.Serve(side{}), b.Err(), b.Close(t.Context())); err != nil || !b.Alone() {
		t.Error(err)
	}
	b.Tell("look", nil)
	b.Drain(t.Context())
	_, err := b.Ask(t.Context(), "b", "hello", nil)
	want(t, "asked", err, relay.ErrGone)
}

// What decodes encodes to the same bytes, and nothing that isn't a frame decodes.
func FuzzDecode(f *testing.F) {
	id := strings.Repeat("i", 16)
	for _, s := range []string{"\x01" + id + "\x04workbody", "\x02" + id + "\x00", "\x03" + id + "\x00", "\x04" + id + "\x00body", "\x05" + id + "\x00lease_expired", "\x05" + id + "\x00",
		"\x06" + strings.Repeat("\x00", 16) + "\x04look", "\x07" + id + "\x00", "", "\x01", "\x01" + id + "\xff", "\x05" + id + "\x00With words", "\x02" + strings.Repeat("\x00", 16) + "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again, err := relay.Decode(data)
		if err == nil && !bytes.Equal(again, data) {
			t.Fatalf("%x becomes %x", data, again)
		}
	})
}

// Nothing that wasn't sealed opens.
func FuzzOpen(f *testing.F) {
	good, err := relay.Seal(key, "a", "here", []byte("words"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:10])
	f.Add([]byte{1, 200})
	f.Fuzz(func(t *testing.T, data []byte) {
		// Each fuzzing process has sealed a good one of its own: what counts is what it says.
		from, body, err := relay.Open(key, "here", data)
		if err == nil && (from != "a" || string(body) != "words") {
			t.Fatalf("%x opens", data)
		}
	})
}
