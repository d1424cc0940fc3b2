// Watches how many requests the server has.

const CALM_INTERVAL = 5000;  // milliseconds between two looks at a server without requests
const BUSY_INTERVAL = 1000;  // at one with requests
const SOON_INTERVAL = 250;   // while the server hears of a change that was made here
const SOON_TIME = 2000;      // how long that may take

export class LoadWatch {
  // `fetchLoad()`: the load, or fails; `show(load)`: {} where the server does not say.
  constructor(fetchLoad, show) {
    this.fetchLoad = fetchLoad;
    this.show = show;
    this.timer = 0;
    this.number = 0;     // of looks; an answer to an earlier one comes too late
    this.soonUntil = 0;
    document.addEventListener('visibilitychange', () => this.look());
    this.look();
  }

  // A request has begun or ended here.
  changed() {
    this.soonUntil = performance.now() + SOON_TIME;
    this.look();
  }

  async look() {
    clearTimeout(this.timer);
    const number = ++this.number;
    if (document.hidden) return;
    // Metrics may be switched off or protected, and the server may be gone.
    const load = await this.fetchLoad().catch(() => ({}));
    if (number !== this.number) return;
    this.show(load);
    const interval = load.running ? BUSY_INTERVAL : CALM_INTERVAL;
    this.timer = setTimeout(() => this.look(),
                            performance.now() < this.soonUntil ? SOON_INTERVAL : interval);
  }
}
