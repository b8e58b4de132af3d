/**
 * Loaded into a server with `--import`. On SIGUSR2 it prints the longest time for which the main
 * thread did not return to its event loop, and starts over. It measures CPU time, because wall time
 * grows when other processes use the machine.
 */
const intervalMs = 5;
const cpuMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

let longestMs = 0;
let lastMs = cpuMs();
setInterval(() => {
  const nowMs = cpuMs();
  longestMs = Math.max(longestMs, nowMs - lastMs);
  lastMs = nowMs;
}, intervalMs).unref();

let printCount = 0;
process.on('SIGUSR2', () => {
  console.log(`stretch ${++printCount} ${longestMs.toFixed(1)} ms`);
  longestMs = 0;
});
