package pagesock

import (
	"context"
	"errors"

	"chaperone/internal/attended/controlv1"
	"chaperone/internal/attended/live"
	"chaperone/internal/refusal"
	"chaperone/internal/session"
)

// person is who a session is to the authority, as it stands now.
func (s *Server) person(of session.Session) controlv1.Person {
	return controlv1.Person{
		Tenant: of.Tenant, Actor: of.Actor, Login: of.Login, Browser: of.Browser, Issuer: of.Issuer, ACR: of.ACR,
		AuthMS: of.AuthTime.UnixMilli(), CredentialUntilMS: of.AccessUntil.UnixMilli(), PolicyVersion: s.Authority.Terms(),
	}
}

// trust is a person with the question whether they are still signed in.
func (s *Server) trust(who controlv1.Person, of session.Session) live.Trust {
	return live.Trust{Person: who, Revalidate: s.revalidator(of.ID, of.Subject, of.Tokens().Access)}
}

// revalidator closes over the credential. It asks the session first, by the handle,
// since a step-up renews the cookie, and then the provider. A code is an exact no.
func (s *Server) revalidator(id, subject, access string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := s.Sessions.Holds(ctx, id); err != nil {
			return ended(err)
		}
		var err error
		if s.Stands != nil {
			err = s.Stands(ctx, access, subject)
		} else {
			_, err = s.Provider.Introspect(ctx, access, subject)
		}
		switch {
		case err == nil:
			return nil
		case refusal.Of(err) == refusal.Inactive:
			return refusal.RevalidationFailed
		}
		return errNoAnswer
	}
}

// errNoAnswer has no code: it is neither a yes nor a no.
var errNoAnswer = errors.New("nothing tells whether the sign-in still stands")

// ended answers what a session's end is to its channel.
func ended(err error) error {
	switch refusal.Of(err) {
	case refusal.Revoked, refusal.Disabled:
		return refusal.Revoked
	case refusal.SessionExpired, refusal.Expired, refusal.Ended, refusal.SignedOut, refusal.LoggedOut, refusal.Replaced:
		return refusal.SignedOut
	}
	return errNoAnswer
}
