package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"chaperone/internal/owned/native"
	"chaperone/internal/owned/scope"
)

// The section of qualification.md that --webmcp writes stands between these.
const (
	webmcpBegin = "<!-- webmcp -->"
	webmcpEnd   = "<!-- /webmcp -->"
)

// qualifyWebMCP asks the engine for the behaviours that the page adapter relies on.
func qualifyWebMCP(ctx context.Context, a *app, engine, evidence, pages string, write bool) error {
	report, err := probeWebMCP(ctx, a, engine)
	if err != nil {
		return err
	}
	if evidence != "" {
		if err := os.MkdirAll(evidence, 0o755); err != nil {
			return err
		}
		if err := writeJSON(filepath.Join(evidence, "webmcp.json"), report); err != nil {
			return err
		}
	}
	if write {
		var section bytes.Buffer
		native.WriteMarkdown(&section, revision(), report)
		if err := writeSection(filepath.Join(pages, "qualification.md"), "Native WebMCP", webmcpBegin, webmcpEnd, section.Bytes()); err != nil {
			return err
		}
	}
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(map[string]any{"revision": revision(), "model_free": true, "release_claim": false, "webmcp": report}); err != nil {
			return err
		}
	} else {
		native.WriteText(a.stdout, report)
	}
	if !report.OK() {
		return exit(exitVerification, errors.New("not qualified: this browser does otherwise than the page adapter relies on"))
	}
	return nil
}

// probeWebMCP serves the probes' pages on loopback and drives a contained browser
// over them.
func probeWebMCP(ctx context.Context, a *app, engine string) (report native.Report, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return report, err
	}
	server := &http.Server{Handler: native.Handler()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Close()
		<-served
	}()
	s, err := scope.FromHosts(localTenant, listener.Addr().String())
	if err != nil {
		return report, err
	}
	c := &contained{app: a, surface: "qualify", timeout: maxTimeout, engine: engine}
	b, err := c.start(ctx, s)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	return native.Run(ctx, b, fmt.Sprintf("http://%s", listener.Addr()), engineVersion(ctx, engine))
}
