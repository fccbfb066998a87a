package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"strings"
	"sync"

	"chaperone/internal/portal/item"
	"chaperone/internal/portal/ledger"
	"chaperone/internal/portal/source"
)

// openSources opens where the accounts' items are.
func (n *Node) openSources(context.Context) error {
	items, err := item.NewBook(n.db, n.log, Tenant, item.Options{MaxItems: n.config.Quotas.Items, MaxBytes: n.config.Quotas.Bytes})
	if err != nil {
		return err
	}
	if n.sources, err = source.Open(n.config.Sources, n.home, items); err != nil {
		return err
	}
	n.later(func(context.Context) error { return n.sources.Close() })
	return nil
}

// externals are the collections that every account has of the configured providers.
func (c Config) externals() []ledger.External {
	var out []ledger.External
	for _, e := range c.Sources.External {
		title := e.Title
		if title == "" {
			title = e.Collection
		}
		out = append(out, ledger.External{Collection: e.Collection, Title: title, Source: source.KindExternal})
	}
	return out
}

// mail takes mail for the embedded mailboxes until ctx is done.
func (n *Node) mail(ctx context.Context, tasks *sync.WaitGroup) error {
	at := n.config.Sources.Inbox.LMTP
	if at == "" || n.sources.Maildir == nil {
		return nil
	}
	l, err := listenMail(at)
	if err != nil {
		return fmt.Errorf("sources.inbox.lmtp: %w", err)
	}
	tasks.Go(func() {
		if err := source.ServeLMTP(ctx, l, n.sources.Maildir, n.mailbox); err != nil && ctx.Err() == nil {
			log.Print("mail is no longer taken: ", err)
		}
	})
	return nil
}

// listenMail opens a loopback port, or a socket of this user alone. A socket that
// nobody answers on is a dead server's.
func listenMail(at string) (net.Listener, error) {
	path, ok := strings.CutPrefix(at, "unix:")
	if !ok {
		return net.Listen("tcp", at)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("another server takes mail at %s", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o600)
}

// mailbox answers whose inbox a recipient is: a person's id, or with the built-in
// provider the one person of that name. A name that two people have is nobody's.
func (n *Node) mailbox(ctx context.Context, local string) (source.Place, bool) {
	actor, ok := n.recipient(ctx, local)
	if !ok {
		return source.Place{}, false
	}
	if err := n.ledger.EnsureAccount(ctx, actor); err != nil {
		return source.Place{}, false
	}
	all, err := n.ledger.Collections(ctx, actor)
	if err != nil {
		return source.Place{}, false
	}
	for _, c := range all {
		if c.Kind == ledger.Inbox && c.State == ledger.Connected {
			return source.Place{Account: source.Account{Tenant: Tenant, Actor: actor}, Collection: c.Collection, Incarnation: c.Place}, true
		}
	}
	return source.Place{}, false
}

func (n *Node) recipient(ctx context.Context, local string) (actor string, ok bool) {
	if n.provider == nil {
		// Another provider's people are known by their ids, once they were here.
		all, err := n.ledger.Collections(ctx, local)
		return local, err == nil && len(all) > 0
	}
	people, err := n.credentials.People(ctx)
	if err != nil {
		return "", false
	}
	for _, p := range people {
		if p.ID == local {
			return p.ID, true
		}
		if strings.EqualFold(strings.ReplaceAll(p.Name, " ", "."), local) {
			if actor != "" {
				return "", false
			}
			actor = p.ID
		}
	}
	return actor, actor != ""
}
