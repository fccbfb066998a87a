package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"chaperone/internal/audit"
	"chaperone/internal/node"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// auditPlaces is where a home keeps its log, and what a command asks of it.
type auditPlaces struct {
	url, checkpoints, key string
	tenant                string
}

// newAuditCmd makes `chaperone audit`.
func newAuditCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify, show and export what was recorded",
		Example: "  chaperone audit verify\n  chaperone audit show --since 24h\n" +
			"  chaperone audit export --out audit.jsonl\n  chaperone audit checkpoint",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditVerifyCmd(a), newAuditShowCmd(a), newAuditExportCmd(a), newAuditCheckpointCmd(a))
	return cmd
}

// auditPlaces answers the home's places. It creates nothing.
func (a *app) auditPlaces(tenant string) (auditPlaces, error) {
	_, config, err := a.settings()
	if err != nil {
		return auditPlaces{}, err
	}
	return auditPlaces{config.Database, config.Audit.Checkpoints, config.Audit.Key, tenant}, nil
}

// open opens the database to be read. One that doesn't exist isn't created: an
// empty log in its place would look like one that never recorded.
func (p auditPlaces) open(ctx context.Context) (*store.DB, error) {
	if noFile(p.url) {
		return nil, exit(exitVerification, fmt.Errorf("nothing verified: there is no database at %s: %w", strings.TrimPrefix(p.url, "sqlite:"), refusal.NothingVerified))
	}
	db, err := store.Open(ctx, p.url, store.Options{})
	return db, tampered(err)
}

func (p auditPlaces) verifyOptions(keys []string) audit.VerifyOptions {
	return audit.VerifyOptions{
		Tenant: p.tenant, CheckpointDir: p.checkpoints, KeyFile: p.key, Keys: keys, Checks: node.Invariants(),
	}
}

// newAuditVerifyCmd makes `chaperone audit verify`.
func newAuditVerifyCmd(a *app) *cobra.Command {
	var tenant, export string
	var keys []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Recompute the whole log and compare; exit 5 where anything differs",
		Long: "Recomputes each record, the whole tree, each stored hash and each checkpoint, and\n" +
			"runs the invariants of what was recorded. Says what it cannot detect, too.\n" +
			"Exit 0: all verified; 5: something differs, or there was nothing to verify.",
		Example: "  chaperone audit verify\n  chaperone audit verify --json --tenant local\n" +
			"  chaperone audit verify --export audit.jsonl --key chaperone-audit+1a2b3c4d+…",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report *audit.Report
			var err error
			if export != "" {
				report, err = verifyExport(cmd.Context(), export, keys)
			} else {
				report, err = a.verifyHome(cmd.Context(), tenant, keys)
			}
			if err != nil {
				return err
			}
			if err := a.printReport(report); err != nil {
				return err
			}
			return exit(exitVerification, report.Err())
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "verify the log of one tenant, `NAME` (default all)")
	cmd.Flags().StringVar(&export, "export", "", "verify the export `FILE`, without a database")
	cmd.Flags().StringArrayVar(&keys, "key", nil, "a public `KEY` that may have signed checkpoints (repeatable)")
	return cmd
}

// verifyExport ends with ctx and leaves its reading behind then; see input.
func verifyExport(ctx context.Context, path string, keys []string) (*audit.Report, error) {
	type outcome struct {
		report *audit.Report
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		file, err := os.Open(path)
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		defer file.Close()
		report, err := audit.VerifyExport(file, keys...)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		done <- outcome{report, err}
	}()
	select {
	case o := <-done:
		return o.report, exit(exitUsage, o.err)
	case <-ctx.Done():
		return nil, fmt.Errorf("told to end while reading %s", path)
	}
}

func (a *app) verifyHome(ctx context.Context, tenant string, keys []string) (report *audit.Report, err error) {
	p, err := a.auditPlaces(tenant)
	if err != nil {
		return nil, err
	}
	db, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return audit.Verify(ctx, db, p.verifyOptions(keys))
}

// printReport prints the report for a program or a person.
func (a *app) printReport(r *audit.Report) error {
	if a.json {
		return a.printLine(r)
	}
	var b strings.Builder
	paint := colours(a.stdout)
	for _, t := range r.Tenants {
		fmt.Fprintf(&b, "%s: %d records, root %s\n", t.Tenant, t.Records, t.Root)
		fmt.Fprintf(&b, "  %d checkpoints cover the first %d; %d unsequenced; values of %d erased\n", t.Checkpoints, t.Covered, t.Unsequenced, t.Erased)
	}
	problem := paint("1;31", "PROBLEM:")
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s %s\n", problem, p)
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "%s and %d more\n", problem, r.More)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", wrapped(n, 6, 6, columns(a.stdout)))
	}
	if r.Err() == nil {
		b.WriteString(paint("32", "verified") + "\n")
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// printLine prints v as one line of JSON.
func (a *app) printLine(v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(data, '\n'))
	return err
}

// auditFilter is the flags that choose records.
type auditFilter struct{ tenant, run, kind, since string }

func (f *auditFilter) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tenant, "tenant", localTenant, "the tenant `NAME` whose log it is")
	cmd.Flags().StringVar(&f.run, "run", "", "only of this `RUN` (the event's subject)")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only of this `KIND`; one that ends in . names a family: owned_run.")
	cmd.Flags().StringVar(&f.since, "since", "", "only from `TIME` on: 24h (ago), 2026-01-31 or 2026-01-31T12:00:00Z")
}

// filter makes the flags a Filter; a time that can't be read is a usage error.
func (f *auditFilter) filter() (audit.Filter, error) {
	out := audit.Filter{Tenant: f.tenant, Subject: f.run, Kind: f.kind}
	if f.since == "" {
		return out, nil
	}
	if ago, err := time.ParseDuration(f.since); err == nil {
		out.Since = time.Now().Add(-ago)
		return out, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, f.since); err == nil {
			out.Since = at
			return out, nil
		}
	}
	return out, exit(exitUsage, fmt.Errorf("--since %q: want a duration (24h), a date (2026-01-31) or a time (2026-01-31T12:00:00Z)", f.since))
}

// newAuditShowCmd makes `chaperone audit show`.
func newAuditShowCmd(a *app) *cobra.Command {
	var chosen auditFilter
	var about attendedRef
	var proof bool
	cmd := &cobra.Command{
		Use:   "show [ID]",
		Short: "Print records; with --proof, that one is in the log",
		Long: "Prints the log's records, oldest first, or the one with that id or number.\n" +
			"In the list, long digests are cut; the one record, and --json, have them whole.\n" +
			"--proof adds the proof that it is in the tree, and the newest checkpoint.\n" +
			"--document, --lease and --call choose all that was recorded of one of attended\n" +
			"control's, also long after it was over.",
		Example: "  chaperone audit show --run browse-ebf8f87c3acea41b --kind owned_run.decided\n  chaperone audit show 42 --proof --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := chosen.filter()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				filter.Record = args[0]
			} else if proof {
				return exit(exitUsage, errors.New("--proof needs the ID of one record"))
			}
			if about.several() {
				return exit(exitUsage, errors.New("--document, --lease, --call: give one of them"))
			}
			return a.show(cmd.Context(), filter, proof, about.of)
		},
	}
	chosen.flags(cmd)
	about.flags(cmd)
	cmd.Flags().BoolVar(&proof, "proof", false, "add the proof of inclusion")
	return cmd
}

// attendedRef is one thing of attended control, whose history is asked for.
type attendedRef struct{ document, lease, call string }

func (r *attendedRef) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.document, "document", "", "only of this `REF`: a page's arm, registrations, leases and calls")
	cmd.Flags().StringVar(&r.lease, "lease", "", "only of this `REF`: a lease and its calls")
	cmd.Flags().StringVar(&r.call, "call", "", "only of this `REF`: one call")
}

func (r *attendedRef) several() bool {
	return r.document != "" && r.lease != "" || r.lease != "" && r.call != "" || r.document != "" && r.call != ""
}

// of tells whether a record is about it: its subject is, or what its subject is of,
// or what a kill switch stands over.
func (r *attendedRef) of(about audit.Record) bool {
	for name, want := range map[string]string{"document": r.document, "lease": r.lease, "call": r.call} {
		if want == "" {
			continue
		}
		return strings.HasPrefix(about.Kind, "attended.") && (about.Subject == want || about.Public[name] == want || about.Public["ref"] == want)
	}
	return true
}

// shown is a record as --json prints it.
type shown struct {
	audit.Record
	Proof *audit.Proof `json:"proof,omitempty"`
}

func (a *app) show(ctx context.Context, filter audit.Filter, proof bool, about func(audit.Record) bool) (err error) {
	p, err := a.auditPlaces(filter.Tenant)
	if err != nil {
		return err
	}
	db, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	found := 0
	var last audit.Record
	err = audit.Records(ctx, db, filter, func(r audit.Record) error {
		if !about(r) {
			return nil
		}
		found++
		if last = r; proof {
			return nil
		}
		return a.printRecord(r, nil, filter.Record == "")
	})
	switch {
	case err != nil:
		return tampered(err)
	case filter.Record != "" && found == 0:
		return fmt.Errorf("no record %s in the log of %s", filter.Record, filter.Tenant)
	case !proof:
		return nil
	}
	proved, err := audit.Prove(ctx, db, last)
	if err != nil {
		return tampered(err)
	}
	if _, file, err := audit.Newest(p.checkpoints, filter.Tenant, p.key); err == nil {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		proved.Checkpoint = string(data)
	}
	return a.printRecord(last, &proved, false)
}

// tampered gives a log that doesn't verify its exit code.
func tampered(err error) error {
	if errors.Is(err, refusal.Tampered) {
		return exit(exitVerification, err)
	}
	return err
}

// digests are what a list cuts to its beginning.
var digests = regexp.MustCompile(`^((?:sha256:)?[0-9a-f]{8})[0-9a-f]{24,}$`)

// printRecord prints one record, in brief as a line of a list.
func (a *app) printRecord(r audit.Record, proof *audit.Proof, brief bool) error {
	if a.json {
		return a.printLine(shown{r, proof})
	}
	var b strings.Builder
	number := "-"
	if r.Seq >= 0 {
		number = fmt.Sprint(r.Seq)
	}
	fmt.Fprintf(&b, "%4s %s %-17s", number, r.At.Format("2006-01-02T15:04:05.000Z"), r.Kind)
	for _, part := range [][2]string{{"subject", r.Subject}, {"actor", r.Actor}, {"code", string(r.Code)}} {
		if part[1] != "" {
			fmt.Fprintf(&b, " %s=%s", part[0], part[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Public)) {
		value := fmt.Sprint(r.Public[name])
		if brief {
			value = digests.ReplaceAllString(value, "$1…")
		}
		fmt.Fprintf(&b, " %s=%s", name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		// Quoted to ASCII: a value came from outside, and a terminal obeys.
		fmt.Fprintf(&b, " %s=%+q", name, r.Values[name])
	}
	for _, name := range r.Erased {
		fmt.Fprintf(&b, " %s=(erased)", name)
	}
	b.WriteByte('\n')
	if proof != nil {
		fmt.Fprintf(&b, "  leaf %s in a tree of %d records, root %s\n  path", proof.Hash, proof.Size, proof.Root)
		for _, h := range proof.Path {
			b.WriteString(" " + h)
		}
		b.WriteByte('\n')
		b.WriteString(proof.Checkpoint)
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// newAuditExportCmd makes `chaperone audit export`.
func newAuditExportCmd(a *app) *cobra.Command {
	var chosen auditFilter
	var out string
	var withoutValues bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write records with their proofs, to be verified elsewhere",
		Long: "Writes JSON lines: the tree, the checkpoints and what ties them together, then a\n" +
			"record each. `chaperone audit verify --export FILE` verifies it without the database.",
		Example: "  chaperone audit export --out audit.jsonl\n  chaperone audit export --run browse-ebf8f87c3acea41b --without-values > run.jsonl",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := chosen.filter()
			if err != nil {
				return err
			}
			return a.export(cmd.Context(), filter, out, withoutValues)
		},
	}
	chosen.flags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "a new `FILE` (default standard output)")
	cmd.Flags().BoolVar(&withoutValues, "without-values", false, "leave sealed values out; the records verify all the same")
	return cmd
}

func (a *app) export(ctx context.Context, filter audit.Filter, out string, withoutValues bool) (err error) {
	p, err := a.auditPlaces(filter.Tenant)
	if err != nil {
		return err
	}
	db, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	to := a.stdout
	if out != "" {
		file, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	n, err := audit.Export(ctx, db, audit.ExportOptions{
		VerifyOptions: p.verifyOptions(nil), Filter: filter, WithoutValues: withoutValues,
	}, to)
	if err != nil {
		return tampered(err)
	}
	if out != "" {
		fmt.Fprintf(a.stderr, "%d records in %s\n", n, out)
	}
	return nil
}

// newAuditCheckpointCmd makes `chaperone audit checkpoint`.
func newAuditCheckpointCmd(a *app) *cobra.Command {
	var tenant string
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Integrate what is left and sign the log's head",
		Long: "Integrates what is left and signs the tree's head, outside the database. Keep the\n" +
			"file and the public key where the database's owner can't reach them.",
		Example: "  chaperone audit checkpoint\n  chaperone audit checkpoint --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.checkpoint(cmd.Context(), tenant) },
	}
	cmd.Flags().StringVar(&tenant, "tenant", localTenant, "the tenant `NAME` whose checkpoint is printed; all that grew are signed")
	return cmd
}

// signed is a checkpoint as --json prints it.
type signed struct {
	Tenant string `json:"tenant"`
	Number int64  `json:"number"`
	Size   int64  `json:"size"`
	Root   string `json:"root"`
	File   string `json:"file"`
	Key    string `json:"key"` // public
}

func (a *app) checkpoint(ctx context.Context, tenant string) (err error) {
	p, err := a.auditPlaces(tenant)
	if err != nil {
		return err
	}
	db, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log, err := audit.Open(db, audit.Options{Tenant: tenant, CheckpointDir: p.checkpoints, KeyFile: p.key})
	if err != nil {
		return exit(exitUsage, err)
	}
	if err := log.Close(ctx); err != nil {
		return tampered(err)
	}
	c, file, err := audit.Newest(p.checkpoints, tenant, p.key)
	if errors.Is(err, refusal.Unknown) {
		return exit(exitVerification, fmt.Errorf("nothing to sign: the log of %s is empty: %w", tenant, refusal.NothingVerified))
	}
	if err != nil {
		return tampered(err)
	}
	key, err := audit.PublicKey(p.key)
	if err != nil {
		return err
	}
	s := signed{c.Tenant, c.Number, c.Size, c.Root.String(), file, key}
	if a.json {
		return a.printLine(s)
	}
	_, err = fmt.Fprintf(a.stdout, "checkpoint %d of %s: %d records, root %s\n%s\npublic key %s\n", s.Number, s.Tenant, s.Size, s.Root, s.File, s.Key)
	return err
}
