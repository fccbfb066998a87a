// Serves the npm package oidc-provider on 127.0.0.1 for one client, with sign-in
// pages of two plain forms. Its one argument is its configuration as JSON; it
// prints its issuer, and ends with standard input.
import http from "node:http";
import Provider from "oidc-provider";

const options = JSON.parse(process.argv[2]);
const gold = "urn:test:gold";

const server = http.createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "client",
        client_secret: "a secret: with + and %",
        redirect_uris: [`${options.origin}/auth/callback`],
        post_logout_redirect_uris: [`${options.origin}/`],
        backchannel_logout_uri: options.backchannel,
        backchannel_logout_session_required: true,
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    findAccount: async (_ctx, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, name: `${id} of the other party`, roles: ["reader"] }),
    }),
    claims: { openid: ["sub", "roles"], profile: ["name"] },
    conformIdTokenClaims: false,
    acrValues: [gold, "urn:test:silver"],
    cookies: { keys: ["test"] },
    features: {
      devInteractions: { enabled: false },
      introspection: { enabled: true },
      revocation: { enabled: true },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
    },
    interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
    // Consent isn't what is tested here.
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid profile");
      await grant.save();
      return grant;
    },
    // The package refuses to call loopback addresses by itself.
    fetch: (url, { dispatcher: _, ...init }) => globalThis.fetch(url, init),
  });
  for (const event of ["server_error", "backchannel.error"]) {
    provider.on(event, (_ctx, error) => console.error(event, error));
  }
  const handle = provider.callback();
  server.on("request", async (req, res) => {
    if (!req.url.startsWith("/interaction/")) return handle(req, res);
    try {
      const details = await provider.interactionDetails(req, res);
      if (req.method === "GET") {
        res.setHeader("content-type", "text/html");
        res.end(`<form method="post" action="${req.url}"><input name="login" value=""><input name="acr" value=""></form><p>${details.prompt.name}</p>`);
        return;
      }
      let body = "";
      for await (const chunk of req) body += chunk;
      const form = new URLSearchParams(body);
      await provider.interactionFinished(
        req,
        res,
        { login: { accountId: form.get("login"), acr: form.get("acr") || undefined, remember: false } },
        { mergeWithLastSubmission: false },
      );
    } catch (error) {
      res.statusCode = 500;
      res.end(String(error));
    }
  });
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
