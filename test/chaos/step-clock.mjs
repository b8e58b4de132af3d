/** Loaded into a server: SIGUSR2 sets its host's clock an hour ahead, SIGUSR1 an hour back. */
const hourMs = 3_600_000;
const HostDate = globalThis.Date;
let steppedMs = 0;

globalThis.Date = class extends HostDate {
  constructor(...args) {
    if (args.length === 0) super(HostDate.now() + steppedMs);
    else super(...args);
  }
  static now() {
    return HostDate.now() + steppedMs;
  }
};

for (const [signal, ms] of [
  ['SIGUSR2', hourMs],
  ['SIGUSR1', -hourMs],
])
  process.on(signal, () => {
    steppedMs += ms;
    process.stderr.write(`the clock of this host is ${steppedMs / hourMs} h ahead\n`);
  });
