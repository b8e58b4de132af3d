/** Renders the progress of a test run as one line. */

/**
 * No estimate is shown before this time: the longest files run first, so it would be far too high.
 */
const minElapsedMs = 120_000;

/**
 * `finished_work_ms` and `remaining_work_ms` are sums of estimated durations of files. Files run in
 * parallel, so the pace of the finished work is measured in elapsed time.
 */
export const estimateLeftMs = (run: {
  elapsed_ms: number;
  finished_work_ms: number;
  remaining_work_ms: number;
}): number | null =>
  run.remaining_work_ms === 0
    ? 0
    : run.elapsed_ms < minElapsedMs || run.finished_work_ms === 0
      ? null
      : (run.elapsed_ms * run.remaining_work_ms) / run.finished_work_ms;

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
