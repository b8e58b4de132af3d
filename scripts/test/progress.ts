/** Renders the progress of a test run as one line. */

/** The longest files run first, so an earlier estimate would be far too high. */
const minElapsedMs = 120_000;

/** Files run in parallel, so the estimate uses the measured pace of the files that are done. */
export const estimateLeftMs = (run: { elapsed_ms: number; done_ms: number; waiting_ms: number }): number | null =>
  run.waiting_ms === 0
    ? 0
    : run.elapsed_ms < minElapsedMs || run.done_ms === 0
      ? null
      : (run.elapsed_ms * run.waiting_ms) / run.done_ms;

const clock = (ms: number) => {
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
};

const timeLeftText = (ms: number | null) =>
  ms === null
    ? ''
    : ms === 0
      ? ', done'
      : ms < 60_000
        ? ', less than a minute left'
        : `, about ${Math.round(ms / 60_000)} min left`;

export const progressLine = (run: {
  elapsed_ms: number;
  left_ms: number | null;
  done: number;
  files: number;
  failed: number;
}): string =>
  `  ${clock(run.elapsed_ms).padStart(6)}  ${run.done} of ${run.files} files, ${run.failed} failed${timeLeftText(run.left_ms)}`;
