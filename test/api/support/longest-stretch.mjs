/**
 * Loaded into a server (`--import`): on SIGUSR2 it prints the longest stretch, in CPU milliseconds
 * of its main thread, in which the event loop did not turn, and starts over. It counts CPU time,
 * not wall time, so other processes do not matter.
 */
const everyMs = 5;
const cpuMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

let longest = 0;
let last = cpuMs();
setInterval(() => {
  const now = cpuMs();
  longest = Math.max(longest, now - last);
  last = now;
}, everyMs).unref();

let printed = 0;
process.on('SIGUSR2', () => {
  console.log(`stretch ${++printed} ${longest.toFixed(1)} ms`);
  longest = 0;
});
