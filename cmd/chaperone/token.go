package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"chaperone/internal/credential"
	"chaperone/internal/oauth"
	"chaperone/internal/owned/fleet"
	portal "chaperone/internal/portal/ledger"
	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
	"chaperone/internal/surface/mcp"
)

// newTokenCmd makes `chaperone token`.
func newTokenCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Bearer tokens for scripts: create, list, revoke",
		Long: `Makes bearer tokens for scripts and MCP clients without a browser, in the home's own database:
a running server takes and refuses them at once. A token reaches exactly the collections and functions
that it was made for, and nothing that is made later.`,
		Example: "  chaperone token create --name backup --collection files:items_list,item_read --expires 30d\n" +
			"  chaperone token list\n  chaperone token revoke 0f1e2d3c4b5a69788796a5b4c3d2e1f0",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCmd(a), newTokenListCmd(a), newTokenRevokeCmd(a))
	return cmd
}

// newToken is what `token create` was asked for.
type newToken struct {
	name, expires, owner             string
	scopes, collections, engagements []string
}

func newTokenCreateCmd(a *app) *cobra.Command {
	var n newToken
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a token; it is shown once",
		Example: "  chaperone token create --name backup --collection files:items_list,item_read --expires 30d\n" +
			"  chaperone token create --name agent --engagement acme-2026 --expires 7d\n" +
			"  chaperone token create --name helper --scope control:write --expires 8h\n" +
			"  TOKEN=$(chaperone token create --name ci --collection files:items_list,item_read,item_write)",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.createToken(cmd.Context(), n) },
	}
	flags := cmd.Flags()
	flags.StringVar(&n.name, "name", "", "what the token is for, as its owner will see the `NAME` (required)")
	flags.StringSliceVar(&n.scopes, "scope", nil, "a `SCOPE`: "+strings.Join(oauth.Scopes, ", ")+" (repeatable; default what the other flags need)")
	flags.StringArrayVar(&n.collections, "collection", nil, "`ID:FUNCTIONS` that it may use, comma between: "+functionWords()+" (repeatable)")
	flags.StringArrayVar(&n.engagements, "engagement", nil, "an engagement's `NAME` for which it may open contained browsers (repeatable)")
	flags.StringVar(&n.expires, "expires", "30d", "how `LONG` it lives, e.g. 12h or 90d; 365d at most")
	flags.StringVar(&n.owner, "owner", "", "whose account, by `NAME` or id (default the only person there is)")
	return cmd
}

func functionWords() string {
	words := make([]string, len(tool.Selectable))
	for i, f := range tool.Selectable {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// madeToken is a new token as --json prints it.
type madeToken struct {
	Token      string          `json:"token"`
	Connection string          `json:"connection_id"`
	Scopes     []string        `json:"scopes"`
	Selection  []tool.Selected `json:"selection"`
	ExpiresMS  int64           `json:"expires_ms"`
}

// engage adds the scopes that name engagements, those that the operator offers now.
// Without one a token for contained browsers could open none.
func (n *newToken) engage(folder string) error {
	all, err := fleet.New(fleet.Config{Engagements: folder}).Engagements()
	if err != nil {
		return err
	}
	var names []string
	for _, e := range all {
		if e.Fault == "" {
			names = append(names, e.Name)
		}
	}
	offers := "none is offered: write one as " + filepath.Join(folder, "NAME.yaml")
	if len(names) > 0 {
		offers = "offered here: " + strings.Join(names, ", ")
	}
	for _, e := range all {
		if e.Fault != "" && slices.Contains(n.engagements, e.Name) {
			file := filepath.Join(folder, e.Name+".yaml")
			return fmt.Errorf("--engagement %s: its file can't be used; `chaperone scope explain %s` says why, and it must name that engagement and be writable by nobody else", e.Name, file)
		}
	}
	for _, e := range n.engagements {
		if !slices.Contains(names, e) {
			return fmt.Errorf("--engagement %s: no such engagement; %s", e, offers)
		}
	}
	if slices.Contains(n.scopes, oauth.ScopeOwned) && len(n.engagements) == 0 {
		return fmt.Errorf("--scope owned goes with --engagement: name at least one; %s", offers)
	}
	return nil
}

func (a *app) createToken(ctx context.Context, n newToken) (err error) {
	_, config, err := a.settings()
	if err != nil {
		return err
	}
	script, err := n.script()
	if err == nil {
		err = n.engage(config.Engagements)
	}
	if err != nil {
		return exit(exitUsage, err)
	}
	l, err := a.openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	c, accounts, err := l.consents()
	if err != nil {
		return err
	}
	owner, err := l.owner(ctx, accounts, n.owner)
	if err != nil {
		return err
	}
	token, connection, err := c.Issue(ctx, owner, script)
	if err != nil {
		return tokenFault(err)
	}
	made := madeToken{token, connection, script.Scopes, script.Selection, time.Now().Add(script.Life).UnixMilli()}
	if a.json {
		return a.printLine(made)
	}
	if _, err := fmt.Fprintln(a.stdout, token); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "This is the only time the token is shown: only its digest is kept. Until %s it may use\n", time.UnixMilli(made.ExpiresMS).UTC().Format("2006-01-02 15:04 UTC"))
	for _, s := range script.Selection {
		fmt.Fprintf(a.stderr, "  %s: %s\n", s.Collection, join(s.Functions))
	}
	if slices.Contains(script.Scopes, oauth.ScopeControl) {
		fmt.Fprintln(a.stderr, "  tools of pages that their person has open and armed")
	}
	if len(n.engagements) > 0 {
		fmt.Fprintf(a.stderr, "  contained browsers: %s\n", strings.Join(n.engagements, ", "))
	}
	fmt.Fprintf(a.stderr, "To end it: chaperone token revoke %s\n", connection)
	return nil
}

func join(functions []tool.Name) string {
	words := make([]string, len(functions))
	for i, f := range functions {
		words[i] = string(f)
	}
	return strings.Join(words, ", ")
}

// script reads the flags. Its errors name the flag.
func (n newToken) script() (mcp.Script, error) {
	s := mcp.Script{Name: n.name}
	if !oauth.ValidName(n.name) {
		return s, errors.New("--name: 1 to 100 bytes that can be seen, e.g. --name backup")
	}
	var err error
	if len(n.scopes) == 0 {
		n.scopes = n.needed()
	}
	s.Scopes, err = oauth.ParseScope(strings.Join(n.scopes, " "))
	if err != nil || len(s.Scopes) == 0 || slices.ContainsFunc(s.Scopes, func(x string) bool { return !slices.Contains(oauth.Scopes, x) }) {
		return s, fmt.Errorf("--scope: one of %s", strings.Join(oauth.Scopes, ", "))
	}
	if s.Life, err = life(n.expires); err != nil {
		return s, err
	}
	for _, text := range n.collections {
		id, functions, ok := strings.Cut(text, ":")
		if !ok || functions == "" {
			return s, fmt.Errorf("--collection %s: name each function, e.g. --collection files:items_list,item_read", id)
		}
		selected := tool.Selected{Collection: id}
		for _, f := range strings.Split(functions, ",") {
			selected.Functions = append(selected.Functions, tool.Name(f))
		}
		s.Selection = append(s.Selection, selected)
	}
	if s.Selection, err = tool.Order(s.Selection); err != nil {
		return s, fmt.Errorf("--collection: each collection once, with functions of %s", functionWords())
	}
	if wants := slices.Contains(s.Scopes, oauth.ScopeCollections); wants != (len(s.Selection) > 0) {
		return s, errors.New("--collection goes with --scope collections: name at least one, e.g. --collection files:items_list,item_read")
	}
	if len(n.engagements) > 0 && !slices.Contains(s.Scopes, oauth.ScopeOwned) {
		return s, errors.New("--engagement goes with --scope owned")
	}
	for _, e := range n.engagements {
		s.Scopes = append(s.Scopes, oauth.Engagement(e))
	}
	return s, nil
}

// needed is the scopes that the other flags ask for.
func (n newToken) needed() []string {
	var out []string
	if len(n.collections) > 0 || len(n.engagements) == 0 {
		out = append(out, oauth.ScopeCollections)
	}
	if len(n.engagements) > 0 {
		out = append(out, oauth.ScopeOwned)
	}
	return out
}

// life reads a duration that may be in days.
func life(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(n, 10*mcp.MaxDays)) * 24 * time.Hour
	}
	if err != nil || d <= 0 || d > mcp.MaxDays*24*time.Hour {
		return 0, fmt.Errorf("--expires: up to %dd, e.g. 12h or 90d", mcp.MaxDays)
	}
	return d, nil
}

// consents joins the two authorities of the home's database.
func (l *records) consents() (mcp.Consents, *portal.Book, error) {
	accounts, err := portal.NewBook(l.db, l.log, localTenant, portal.Options{})
	if err != nil {
		return mcp.Consents{}, nil, err
	}
	tokens, err := oauth.NewBook(l.db, l.log, localTenant, oauth.Options{})
	return mcp.Consents{Tokens: tokens, Ledger: accounts}, accounts, err
}

// owner answers whose account is meant, and opens it where its owner hasn't been
// there yet.
func (l *records) owner(ctx context.Context, accounts *portal.Book, who string) (mcp.Owner, error) {
	key := make([]byte, 32) // people are read without it
	rand.Read(key)
	book, err := credential.NewBook(l.db, l.log, localTenant, credential.Options{Origin: "http://localhost", Key: key})
	if err != nil {
		return mcp.Owner{}, err
	}
	people, err := book.People(ctx)
	if err != nil {
		return mcp.Owner{}, err
	}
	people = slices.DeleteFunc(people, func(p credential.Person) bool {
		return p.State != credential.Active || who != "" && who != p.Name && who != p.ID
	})
	switch {
	case len(people) == 1:
		return mcp.Owner{Actor: people[0].ID, Roles: people[0].Roles}, accounts.EnsureAccount(ctx, people[0].ID)
	case len(people) > 1:
		return mcp.Owner{}, exit(exitUsage, errors.New("several people could be meant: say whose token it is with --owner NAME (or the id)"))
	case who == "":
		return mcp.Owner{}, exit(exitUsage, errors.New("nobody has enrolled here yet: start `chaperone serve` and use its link, or name the account with --owner ID"))
	}
	return l.signedIn(ctx, who)
}

// signedIn answers a person of another provider, of whom nothing is known here but
// what their session says.
func (l *records) signedIn(ctx context.Context, who string) (mcp.Owner, error) {
	sessions, err := session.NewBook(l.db, l.log, localTenant, session.Options{})
	if err != nil {
		return mcp.Owner{}, err
	}
	all, err := sessions.List(ctx, who)
	if err != nil {
		return mcp.Owner{}, err
	}
	if len(all) == 0 {
		return mcp.Owner{}, exit(exitUsage, errors.New("--owner: nobody of that name or id is here; a person of another provider must be signed in to the portal"))
	}
	return mcp.Owner{Actor: who, Roles: all[0].Roles}, nil
}

// tokenFault words what the authorities refused.
func tokenFault(err error) error {
	switch refusal.Of(err) {
	case tool.UnknownCollection:
		return exit(exitUsage, errors.New("--collection: the account has no such collection"))
	case tool.FunctionUnavailable:
		return exit(exitUsage, errors.New("--collection: it doesn't offer one of the functions: an inbox deletes nothing, and an external source is read only"))
	case tool.SourceDisconnected:
		return exit(exitFailed, errors.New("that collection is disconnected: connect it again in the portal"))
	case tool.QuotaExceeded:
		return exit(exitFailed, errors.New("the account has as many connections as it may have: revoke one"))
	}
	return err
}

func newTokenListCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the tokens that were made for scripts; not the tokens themselves",
		Example: "  chaperone token list\n  chaperone token list --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listTokens(cmd.Context()) },
	}
}

// listedToken is one of them as --json prints it.
type listedToken struct {
	Connection string          `json:"connection_id"`
	Name       string          `json:"name"`
	Owner      string          `json:"owner"`
	Scopes     []string        `json:"scopes"`
	Selection  []tool.Selected `json:"selection"`
	State      string          `json:"state"`
	CreatedMS  int64           `json:"created_ms"`
	ExpiresMS  int64           `json:"expires_ms"`
}

func (a *app) listTokens(ctx context.Context) (err error) {
	l, err := a.openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	c, accounts, err := l.consents()
	if err != nil {
		return err
	}
	families, err := c.Tokens.Families(ctx, "")
	if err != nil {
		return err
	}
	all := []listedToken{}
	for _, f := range families {
		if !f.Script {
			continue
		}
		t := listedToken{f.Connection, f.Name, f.Actor, f.Scopes, nil, string(f.State), f.Created.UnixMilli(), f.Ends.UnixMilli()}
		switch stands, err := accounts.Connection(ctx, f.Connection); {
		case err == nil:
			t.Selection = stands.Selection
			if f.State == oauth.Live && stands.State != portal.Live { // ended in the portal, which is enough
				t.State = string(stands.State)
			}
		case !errors.Is(err, refusal.Unknown): // without collections there is none
			return err
		}
		if t.State == string(oauth.Live) && !time.Now().Before(f.Ends) {
			t.State = string(oauth.Expired)
		}
		all = append(all, t)
	}
	if a.json {
		return a.printLine(struct {
			Tokens []listedToken `json:"tokens"`
		}{all})
	}
	if len(all) == 0 {
		fmt.Fprintln(a.stderr, "no tokens; make one with chaperone token create")
		return nil
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CONNECTION\tNAME\tSTATE\tEXPIRES\tMAY USE")
	for _, t := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", t.Connection, t.Name, t.State, time.UnixMilli(t.ExpiresMS).UTC().Format("2006-01-02 15:04"), t.may())
	}
	return table.Flush()
}

// may tells what a token may use, in one line.
func (t listedToken) may() string {
	var parts []string
	for _, s := range t.Selection {
		parts = append(parts, s.Collection+": "+join(s.Functions))
	}
	if slices.Contains(t.Scopes, oauth.ScopeControl) {
		parts = append(parts, "armed pages")
	}
	if browsers := oauth.Engagements(t.Scopes); len(browsers) > 0 {
		parts = append(parts, "browsers: "+strings.Join(browsers, ", "))
	}
	if len(parts) == 0 { // what it was granted is gone
		return strings.Join(t.Scopes, ", ")
	}
	return strings.Join(parts, "; ")
}

func newTokenRevokeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a token by its connection's id; the next call is refused",
		Long:    "Ends the token at once: its next call is refused. A change that was accepted before may still complete.",
		Example: "  chaperone token revoke 0f1e2d3c4b5a69788796a5b4c3d2e1f0",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.revokeToken(cmd.Context(), args[0]) },
	}
}

func (a *app) revokeToken(ctx context.Context, id string) (err error) {
	l, err := a.openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close(ctx)) }()
	c, _, err := l.consents()
	if err != nil {
		return err
	}
	families, err := c.Tokens.Families(ctx, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(families, func(f oauth.Family) bool { return f.Connection == id })
	if i < 0 {
		return errors.New("no token of that connection; chaperone token list has them")
	}
	if err := c.Revoke(ctx, families[i].Actor, id); err != nil {
		return err
	}
	if a.json {
		return a.printLine(struct {
			Revoked string `json:"revoked"`
		}{id})
	}
	_, err = fmt.Fprintln(a.stdout, "revoked", id)
	return err
}
