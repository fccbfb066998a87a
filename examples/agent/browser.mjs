// owned-browser-v1 over a run's Unix socket, in plain Node: what an agent in
// another language writes for itself (spec/owned-browser.md, section 2).
import { randomBytes } from "node:crypto";
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const hex = (bytes) => randomBytes(bytes).toString("hex");

// open waits for the run's registration in dir and makes the one handshake.
export async function open(dir, config) {
  const { run_id, desktop_engagement_id } = config.configurable;
  const until = Date.now() + 30_000;
  for (;;) {
    try {
      return await handshake(`${dir}/${run_id}`, run_id, desktop_engagement_id);
    } catch (err) {
      if (err.code !== "ENOENT" || Date.now() > until) throw err;
    }
    await sleep(50, undefined, { signal: config.signal });
  }
}

async function handshake(folder, run_id, engagement_id) {
  const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    // Through the open folder: a socket's path has 107 bytes at most.
    const at = `/proc/self/fd/${fd}`;
    const d = JSON.parse(readFileSync(`${at}/browser.json`, "utf8"));
    if (d.run_id !== run_id || d.engagement_id !== engagement_id) throw new Error("another run's registration");
    const identity = { protocol: d.protocol, engagement_id, run_id, epoch: d.epoch };
    const post = (path, token, body) => send(`${at}/browser.sock`, path, token, { ...identity, ...body });
    const session = await post("/v1/browser/handshake", d.bootstrap_token, { client_nonce: hex(32) });
    let sequence = 0;
    return {
      close: () => closeSync(fd),
      act: async (action, params = {}) =>
        (await post("/v1/browser/action", session.session_token, {
          request_id: hex(16), sequence: ++sequence, deadline_ms: Date.now() + 25_000, action, params,
        })).result,
    };
  } catch (err) {
    closeSync(fd);
    throw err;
  }
}

function send(socketPath, path, token, body) {
  const data = JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const req = request({
      socketPath, path, method: "POST", agent: false,
      headers: { Host: "127.0.0.1:1", "Content-Type": "application/json", "Content-Length": Buffer.byteLength(data), Authorization: `Bearer ${token}` },
    }, (res) => {
      let text = "";
      res.setEncoding("utf8").on("data", (part) => (text += part)).on("error", reject).on("end", () => {
        if (res.statusCode !== 200) reject(new Error(`${path} answered ${res.statusCode}`));
        else resolve(JSON.parse(text));
      });
    });
    req.on("error", reject).end(data);
  });
}
