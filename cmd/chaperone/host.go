package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"chaperone/internal/owned/host"
	"chaperone/internal/owned/jail"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/run"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
	"chaperone/internal/surface/runsock"
)

// hosting is the host command's flags.
type hosting struct {
	app                       *app
	engagement, runID         string
	dir, scopeFile, transport string
	ledger                    *records // opened while the box starts
	folder                    *host.Folder
	listener                  net.Listener
	endpoint, authority       string
}

func newHostCmd(a *app) *cobra.Command {
	h := &hosting{app: a}
	cmd := &cobra.Command{
		Use:   "host --engagement E --run-id UUID --dir DIR --scope FILE",
		Short: "One owned browser for one registration",
		Long: `Starts one contained browser, publishes its registration in DIR/UUID and
serves owned-browser-v1 there until SIGTERM, SIGINT, the end of standard input
or the run's own end. It prints one JSON line on standard output when the
registration is published, and leaves nothing behind.

The registration is good for one handshake within 60 seconds.`,
		Example: `  mkdir -m 700 browser-runs
  chaperone host --engagement acme-2026 --run-id 5f0c9f9e-3c5e-4f0e-9d3e-6f3a2f1f8a11 \
    --dir browser-runs --scope acme.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return h.do(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&h.engagement, "engagement", "", "the `NAME` of the scope's engagement")
	f.StringVar(&h.runID, "run-id", "", "the run's `UUID`, as the agent server made it")
	f.StringVar(&h.dir, "dir", "", "registrations `DIR`, private (mode 0700)")
	f.StringVar(&h.scopeFile, "scope", "", "scope `FILE`: what the browser may reach")
	f.StringVar(&h.transport, "transport", ownedv1.TransportUnix, "`KIND`: unix, or loopback for direct runs in one network namespace")
	_ = cmd.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions(
		[]string{ownedv1.TransportUnix, ownedv1.TransportDirect}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// do hosts the run from start to end.
func (h *hosting) do(ctx context.Context) (err error) {
	s, err := h.read(ctx)
	if err != nil {
		return exit(exitUsage, err)
	}
	engine, err := jail.FindEngine("")
	if err != nil {
		return withDoctor(err)
	}
	// Whoever started us holds our standard input; its end is theirs, or their wish.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, h.app.stdin)
		stop()
	}()
	if h.folder, err = host.OpenFolder(ctx, h.dir, h.runID); err != nil {
		if errors.Is(err, refusal.BadDocument) {
			return exit(exitUsage, err)
		}
		return withDoctor(err)
	}
	defer func() { err = errors.Join(err, h.folder.Close(), h.closeLedger()) }()
	run, err := h.start(ctx, s, engine)
	if h.listener != nil {
		defer h.listener.Close()
	}
	if err != nil && ctx.Err() != nil {
		return errors.New("told to end before the browser was ready: keep standard input open for as long as the run is wanted")
	}
	if err != nil {
		return withDoctor(err)
	}
	return h.serve(ctx, run, engine)
}

// start starts the run while the folder's guardian comes up and the socket is
// bound under it.
func (h *hosting) start(ctx context.Context, s *scope.Scope, engine string) (*host.Host, error) {
	bound := make(chan error, 1)
	go func() {
		err := h.folder.Guarded()
		if err == nil {
			err = h.listen()
		}
		bound <- err
	}()
	run, err := host.Start(ctx, host.Config{
		Engagement: h.engagement, RunID: h.runID, StartedBy: "uid:" + strconv.Itoa(os.Getuid()), Surface: "host",
		Scope: s, Engine: engine, Open: h.open, Handshake: true,
	})
	if err := errors.Join(err, <-bound); err != nil {
		if run != nil {
			closing, cancel := context.WithTimeout(context.Background(), ending)
			defer cancel()
			err = errors.Join(err, run.Close(closing, refusal.Failed))
		}
		return nil, err
	}
	return run, nil
}

// read checks the flags and reads the scope; nothing has been started yet.
func (h *hosting) read(ctx context.Context) (*scope.Scope, error) {
	for _, flag := range [][2]string{{"--engagement", h.engagement}, {"--run-id", h.runID}, {"--dir", h.dir}, {"--scope", h.scopeFile}} {
		if flag[1] == "" {
			return nil, fmt.Errorf("%s is needed; see chaperone host -h", flag[0])
		}
	}
	for _, flag := range [][2]string{{"--engagement", h.engagement}, {"--run-id", h.runID}} {
		if !ownedv1.ValidID(flag[1]) {
			return nil, fmt.Errorf("%s must match ^[A-Za-z0-9_-]{1,128}$", flag[0])
		}
	}
	if h.transport != ownedv1.TransportUnix && h.transport != ownedv1.TransportDirect {
		return nil, fmt.Errorf("--transport is unix or loopback, not %q", h.transport)
	}
	data, err := input(ctx, "scope file", h.scopeFile, nil)
	if err != nil {
		return nil, err
	}
	s, err := scope.Parse(h.scopeFile, data)
	if err != nil {
		return nil, err
	}
	if s.Engagement() != h.engagement {
		return nil, fmt.Errorf("%s is for engagement %q, and --engagement is %q: they must be equal", h.scopeFile, s.Engagement(), h.engagement)
	}
	return s, nil
}

// listen binds the run's socket.
func (h *hosting) listen() (err error) {
	if h.transport == ownedv1.TransportUnix {
		h.endpoint = ownedv1.UnixEndpoint
		h.listener, err = runsock.ListenUnix(h.folder.Dir(), host.SocketName)
		h.authority = runsock.UnixAuthority
		return err
	}
	h.listener, h.authority, err = runsock.ListenLoopback()
	h.endpoint = "http://" + h.authority
	return err
}

// open opens the home's database; host.Start calls it while the box starts.
func (h *hosting) open(ctx context.Context) (_ *run.Book, err error) {
	if h.ledger, err = h.app.openLedger(ctx); err != nil {
		return nil, err
	}
	return h.ledger.book()
}

func (h *hosting) closeLedger() error {
	if h.ledger == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	return h.ledger.close(ctx)
}

// readyLine is all that the command says on standard output. It holds no secret.
type readyLine struct {
	Ready  bool   `json:"ready"`
	Engine string `json:"engine"`
}

// serve publishes the registration and answers until the run or ctx ends.
func (h *hosting) serve(ctx context.Context, run *host.Host, engine string) error {
	server := runsock.New(run, h.authority)
	served := make(chan error, 1)
	go func() { served <- server.Serve(h.listener) }()
	err := h.folder.Publish(run.Descriptor(h.endpoint, h.transport))
	if err == nil {
		err = json.NewEncoder(h.app.stdout).Encode(readyLine{true, filepath.Base(engine)})
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case <-run.Done():
			err = run.Err()
		case <-h.folder.Exposed():
			err = errors.New("the guardian of the registration can't be started again")
		case err = <-served:
			served <- nil
		}
	}
	// Revoked first, so that nobody begins what is about to end.
	closing, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	return errors.Join(err, h.folder.Revoke(), run.Close(closing, refusal.Ended), server.Close(), <-served)
}
