package mcp

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	catalog "chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
)

// serveTools is the middleware that lists and calls what the request's grant
// reaches. Nothing is registered at the SDK, whose list would be the same for
// everybody; own says that tests registered theirs.
func (h *HTTP) serveTools(own bool) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch method {
			case "tools/list":
				result, err := next(ctx, method, req)
				list, ok := result.(*sdk.ListToolsResult)
				if err != nil || !ok {
					return result, err
				}
				return h.list(ctx, req, list)
			case toolCall:
				call, ok := req.(*sdk.CallToolRequest)
				if !ok {
					return nil, noMethod
				}
				if o := h.offer(call.Params.Name); o != nil {
					return h.call(ctx, o, call)
				}
				if own {
					return next(ctx, method, req)
				}
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool", Data: catalog.Fail(catalog.UnknownTool).JSON()}
			}
			return next(ctx, method, req)
		}
	}
}

var noMethod = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}

// list adds what the grant can use now.
func (h *HTTP) list(ctx context.Context, req sdk.Request, list *sdk.ListToolsResult) (sdk.Result, error) {
	g, ok := granted(req)
	if !ok {
		return nil, noMethod
	}
	for _, o := range h.cfg.Offers {
		if !g.Principal.HasScope(o.Scope()) {
			continue
		}
		tools, err := o.Tools(ctx, g)
		if err != nil {
			return nil, h.internal("listing tools", err)
		}
		for _, d := range tools {
			list.Tools = append(list.Tools, d.listed())
		}
	}
	return list, nil
}

// call runs one tool of an offer. What an agent can read is a result: an error of
// the protocol doesn't reach the model.
func (h *HTTP) call(ctx context.Context, o Offer, req *sdk.CallToolRequest) (sdk.Result, error) {
	g, ok := granted(req)
	if !ok || !g.Principal.HasScope(o.Scope()) { // judged before; a call without a grant has no way here
		return nil, noMethod
	}
	result, err := o.Call(ctx, g, req.Params.Name, req.Params.Arguments)
	if err != nil {
		result = Structured(h.failure(err).JSON(), true)
	}
	return &written{result, req.ProtocolVersion() >= newest}, nil
}

// failure answers an error as a tool tells it. One without a code of the contract
// is our own fault, told as failed and nothing else.
func (h *HTTP) failure(err error) *catalog.Error {
	var failed *catalog.Error
	if errors.As(err, &failed) {
		return failed
	}
	if errors.Is(err, context.Canceled) {
		return catalog.Fail(catalog.Cancelled)
	}
	code := refusal.Of(err)
	h.cfg.Log.Error("calling a tool", "code", string(code))
	if code == "" {
		code = refusal.Failed
	}
	return catalog.Fail(code)
}

func (h *HTTP) internal(what string, err error) error {
	code := refusal.Of(err)
	h.cfg.Log.Error(what, "code", string(code))
	if code == "" {
		code = refusal.Failed
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error", Data: catalog.Fail(code).JSON()}
}
