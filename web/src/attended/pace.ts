// Keeps what the page sends under the authority's rate: 32 frames at once, and 16
// a second. What is over that waits; the authority would close the channel for it.

const most = 30; // a little under, since two clocks count
const each = 1000 / 15; // ms

export class Pace {
  private readonly queue: string[] = [];
  private tokens = most;
  private at = performance.now();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly send: (frame: string) => void) {}

  push(frame: string): void {
    this.queue.push(frame);
    this.drain();
  }

  /** Drops what waits. */
  stop(): void {
    clearTimeout(this.timer);
    this.queue.length = 0;
  }

  private drain(): void {
    clearTimeout(this.timer);
    const now = performance.now();
    this.tokens = Math.min(most, this.tokens + (now - this.at) / each);
    this.at = now;
    while (this.queue.length > 0 && this.tokens >= 1) {
      this.tokens--;
      this.send(this.queue.shift()!);
    }
    if (this.queue.length > 0) this.timer = setTimeout(() => this.drain(), each);
  }
}
