// The LangGraph API server, in one process and on a port of its own choice (or
// the one it is told). It ends with its standard input.
import { startServer } from "@langchain/langgraph-api/server";
import { writeSync } from "node:fs";

const { host } = await startServer({
  port: Number(process.argv[2] ?? 0), nWorkers: Number(process.argv[3] ?? 10), host: "127.0.0.1",
  cwd: process.cwd(), graphs: { steps: "./graph.mjs:graph" },
});
writeSync(3, host + "\n");
process.stdin.on("end", () => process.exit(0)).resume();
