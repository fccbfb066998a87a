// A graph without a model: it does the steps of its input, in order.
import { Annotation, END, START, StateGraph, interrupt } from "@langchain/langgraph";
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "./browser.mjs";

const State = Annotation.Root({ steps: Annotation(), seen: Annotation() });

async function work({ steps }, config) {
  const signal = config.signal;
  const seen = [];
  let browser;
  try {
    for (const step of steps) {
      if (step === "open") {
        browser = await open(process.env.AGENT_REGISTRATIONS, config);
        seen.push(await browser.act("launch"));
      } else if (step === "config") {
        const { configurable } = config;
        seen.push(Object.fromEntries(Object.entries(configurable).filter(([key]) => !key.startsWith("__") && !key.startsWith("checkpoint"))));
      } else if (step === "fail") {
        throw new Error("failed on purpose");
      } else if (step === "ask") {
        seen.push(interrupt("may I?"));
      } else if (step.sleep) {
        await sleep(step.sleep, undefined, { signal });
      } else if (step.large) {
        seen.push("x".repeat(step.large));
      } else {
        seen.push(await browser.act(step.action, step.params));
      }
    }
  } finally {
    browser?.close();
  }
  return { seen };
}

export const graph = new StateGraph(State).addNode("work", work).addEdge(START, "work").addEdge("work", END).compile();
