package ownedv1_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
	"chaperone/spec"
)

// vector is one entry of spec/vectors/{descriptors,requests,answers}.json.
type vector struct {
	Verb, Name, Text, Field, Params string
	Accept                          bool
	Status                          int
	Code                            refusal.Code
}

// vectors reads one file with its placeholders filled in.
func vectors(t testing.TB, file string, now time.Time) []vector {
	t.Helper()
	data, err := spec.Files.ReadFile("vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Vectors []vector }
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	names := spec.Names{
		"engagement_id": identity.EngagementID, "run_id": identity.RunID, "epoch": identity.Epoch,
		"bootstrap_token": token, "host_commit": commit,
		"request_id": requestID, "sequence": "1", "nonce": nonce,
	}
	for i := range v.Vectors {
		text, err := names.Expand([]byte(v.Vectors[i].Text), now)
		if err != nil {
			t.Fatal(v.Vectors[i].Name, err)
		}
		v.Vectors[i].Text = string(text)
	}
	return v.Vectors
}

func TestDescriptorVectors(t *testing.T) {
	now := time.Now()
	for _, x := range vectors(t, "descriptors.json", now) {
		d, err := ownedv1.DecodeDescriptor([]byte(x.Text), now)
		if x.Accept {
			if err != nil {
				t.Errorf("%s: %v", x.Name, err)
			} else if again, err := ownedv1.DecodeDescriptor(d.Encode(), now); err != nil || again != d {
				t.Errorf("%s: comes back as %v, %v", x.Name, again, err)
			}
			continue
		}
		var bad *ownedv1.Bad
		if !errors.As(err, &bad) || bad.Code != refusal.IncompatibleRuntime || bad.Field != x.Field || bad.Status != 0 {
			t.Errorf("%s: got %v, want INCOMPATIBLE_RUNTIME for field %q", x.Name, err, x.Field)
		}
		if d != (ownedv1.Descriptor{}) {
			t.Errorf("%s: a refused descriptor was handed out", x.Name)
		}
	}
}

func TestRequestVectors(t *testing.T) {
	now := time.Now()
	for _, x := range vectors(t, "requests.json", now) {
		var err error
		switch ownedv1.Verb(x.Verb) {
		case ownedv1.Handshake:
			_, err = ownedv1.DecodeHandshakeRequest([]byte(x.Text))
		case ownedv1.Cancel:
			_, err = ownedv1.DecodeCancelRequest([]byte(x.Text))
		case ownedv1.DoAction:
			var r ownedv1.ActionRequest
			r, err = ownedv1.DecodeActionRequest([]byte(x.Text), now)
			if err != nil {
				break
			}
			if refused := x.Params == "refused"; refused != (r.ParamsErr != nil) || refused != (r.Params == nil) {
				t.Errorf("%s: params %v, %v; want refused %v", x.Name, r.Params, r.ParamsErr, refused)
			}
			if r.ParamsErr != nil && refusal.Of(r.ParamsErr) != refusal.BrowserActionFailed {
				t.Errorf("%s: %v", x.Name, r.ParamsErr)
			}
			if r.Params != nil && r.Params.Name() != r.Action {
				t.Errorf("%s: decoded as %s", x.Name, r.Params.Name())
			}
		}
		var bad *ownedv1.Bad
		switch {
		case x.Status == 200 && err != nil:
			t.Errorf("%s, %s: %v", x.Verb, x.Name, err)
		case x.Status != 200 && (!errors.As(err, &bad) || bad.Status != x.Status || bad.Code != x.Code || refusal.Of(err) != x.Code):
			t.Errorf("%s, %s: got %v, want %d %s", x.Verb, x.Name, err, x.Status, x.Code)
		}
	}
}

// The answers that decoding can judge; those of status and connection are
// judged by the client's own test.
func TestAnswerVectors(t *testing.T) {
	now := time.Now()
	desc := descriptor(now)
	for _, x := range vectors(t, "answers.json", now) {
		if x.Status != 200 || x.Name == "compressed" || len(x.Name) > 12 && x.Name[:12] == "Content-Type" {
			continue
		}
		err := judge(x, desc, now)
		if got := refusal.Of(err); got != x.Code {
			t.Errorf("%s, %s: got %v, want %q", x.Verb, x.Name, err, x.Code)
		}
	}
}

func judge(x vector, desc ownedv1.Descriptor, now time.Time) error {
	switch ownedv1.Verb(x.Verb) {
	case ownedv1.Handshake:
		r, err := ownedv1.DecodeHandshakeResponse([]byte(x.Text))
		if err != nil {
			return err
		}
		return r.Answers(desc, nonce, now)
	case ownedv1.Cancel:
		r, err := ownedv1.DecodeCancelResponse([]byte(x.Text))
		if err != nil {
			return err
		}
		return r.Answers(ownedv1.CancelRequest{Identity: identity, RequestID: requestID, Sequence: 1})
	}
	r, err := ownedv1.DecodeActionResponse([]byte(x.Text))
	if err != nil {
		return err
	}
	return r.Answers(ownedv1.ActionRequest{Identity: identity, RequestID: requestID, Sequence: 1})
}
