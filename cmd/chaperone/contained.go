package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"chaperone/internal/owned/host"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// contained is what browse and mcp share: the flags of one contained browser
// and the run that is made of them.
type contained struct {
	app       *app
	surface   string // browse or mcp, as audit tells it
	scopeFile string
	allow     []string
	timeout   time.Duration
	files     string
	downloads string
	engine    string // the browser's executable; "" is the installed one
	maxResult int    // bytes of one result; 0: what fits an owned-browser-v1 answer
}

// Limits of --timeout: one action of a local surface.
const maxTimeout = 10 * time.Minute

func (c *contained) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.scopeFile, "scope", "", "scope `FILE`: what the browser may reach")
	f.StringArrayVar(&c.allow, "allow", nil, "without --scope: allow `HOST[:PORT]` (repeatable; PORT may be *)")
	f.DurationVar(&c.timeout, "timeout", host.DefaultTimeout, "longest time of one action, up to 10m")
	f.StringVar(&c.files, "files", "", "`DIR` whose files may be uploaded")
	f.StringVar(&c.downloads, "downloads", "", "`DIR` for downloads; without it they are denied")
}

// read checks the flags and reads the scope. Everything that is wrong here is a
// matter of usage: nothing has been started.
func (c *contained) read(ctx context.Context) (*scope.Scope, error) {
	s, err := c.readScope(ctx)
	if err != nil {
		return nil, exit(exitUsage, err)
	}
	if c.timeout <= 0 || c.timeout > maxTimeout {
		return nil, exit(exitUsage, fmt.Errorf("--timeout %s: it must be over 0 and up to 10m", c.timeout))
	}
	for flag, dir := range map[string]string{"--files": c.files, "--downloads": c.downloads} {
		if dir == "" {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, exit(exitUsage, fmt.Errorf("%s %s: no such folder", flag, dir))
		}
	}
	return s, nil
}

func (c *contained) readScope(ctx context.Context) (*scope.Scope, error) {
	switch {
	case c.scopeFile != "" && len(c.allow) > 0:
		return nil, errors.New("give --scope or --allow, not both")
	case c.scopeFile == "" && len(c.allow) == 0:
		return nil, errors.New("a contained browser needs to know what it may reach: " +
			"--scope FILE, or --allow HOST[:PORT] for each host, as in\n  chaperone " + c.surface + " --allow app.example.com --allow 'localhost:*'")
	case c.scopeFile == "":
		return scope.FromHosts(localTenant, c.allow...)
	}
	data, err := input(ctx, "scope file", c.scopeFile, nil)
	if err != nil {
		return nil, fmt.Errorf("%w\nWithout a file, name the hosts: chaperone %s --allow HOST[:PORT]", err, c.surface)
	}
	return scope.Parse(c.scopeFile, data)
}

// browsing is one contained browser with the ledger it is written in.
type browsing struct {
	*host.Host

	mu     sync.Mutex
	ledger *records // opened while the box starts
}

// start starts the box and launches the browser. After an error nothing is left.
func (c *contained) start(ctx context.Context, s *scope.Scope) (*browsing, error) {
	engine, err := jail.FindEngine(c.engine)
	if err != nil {
		return nil, withDoctor(err)
	}
	b := &browsing{}
	b.Host, err = host.Start(ctx, host.Config{
		Engagement: s.Engagement(), RunID: c.surface + "-" + run.NewToken()[:16],
		StartedBy: "uid:" + strconv.Itoa(os.Getuid()), Surface: c.surface,
		Scope: s, Engine: engine, Timeout: c.timeout, MaxResult: c.maxResult, FilesDir: c.files, DownloadsDir: c.downloads,
		Open: func(ctx context.Context) (*run.Book, error) {
			l, err := c.app.openLedger(ctx)
			if err != nil {
				return nil, err
			}
			b.mu.Lock()
			b.ledger = l
			b.mu.Unlock()
			return l.book()
		},
	})
	if err != nil {
		return nil, errors.Join(withDoctor(err), b.end())
	}
	if _, err := b.Do(ctx, ownedv1.Launch{Headless: true}); err != nil {
		return nil, errors.Join(err, b.end())
	}
	return b, nil
}

// ending bounds how long a command waits for its run's last words.
const ending = 15 * time.Second

// end stops the browser, waits until nothing of it is left, and closes the
// ledger. It works also where start got only half-way, and after the command
// was told to end.
func (b *browsing) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	var errs []error
	if b.Host != nil {
		errs = append(errs, b.Close(ctx, refusal.Ended))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledger != nil {
		errs = append(errs, b.ledger.close(ctx))
		b.ledger = nil
	}
	return errors.Join(errs...)
}

// withDoctor points a missing prerequisite at the command that mends it.
func withDoctor(err error) error {
	if errors.Is(err, refusal.PrerequisiteMissing) {
		return fmt.Errorf("%w\n`chaperone doctor` says what is missing and how to mend it", err)
	}
	return err
}
