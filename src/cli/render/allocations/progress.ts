/**
 * Renders the progress that the server computed for an operation. Only `workflow_id`, `status`,
 * `phase` and `elapsed_seconds` are guaranteed; every other field may be missing.
 */
import type { Progress, ProgressPart } from '../../../contract/progress.ts';
import { formatElapsed, formatUsualRange } from '../text/duration.ts';
import type { Paint, Tone } from '../text/palette.ts';
import { displayWidth, printable, truncate } from '../text/text.ts';

export type ReadableProgress = Pick<Progress, 'workflow_id' | 'status' | 'phase' | 'elapsed_seconds'> &
  Partial<Progress>;

export interface ProgressView {
  progress: ReadableProgress;
  /** The age of the progress object. Its counters are advanced by this much. */
  seen_seconds_ago: number;
  /** The last state of the bar; see `raiseBar`. */
  bar: Bar | null;
}

/** The state of a bar. Each operation starts a new bar. */
export interface Bar {
  workflow_id: string;
  percent: number;
}

const endStatuses: Partial<Record<Progress['status'], true>> = { succeeded: true, failed: true, cancelled: true };
export const isOver = (progress: Pick<Progress, 'status'>): boolean => endStatuses[progress.status] === true;

/** A bar never goes back: a late or repeated object, or a retried step, leaves it in place. */
export function raiseBar(bar: Bar | null, progress: ReadableProgress): Bar | null {
  if (progress.percent === undefined) return bar?.workflow_id === progress.workflow_id ? bar : null;
  const before = bar?.workflow_id === progress.workflow_id ? bar.percent : 0;
  const percent = progress.status === 'succeeded' ? 100 : Math.min(100, Math.max(before, progress.percent));
  return { workflow_id: progress.workflow_id, percent };
}

const secondsSinceUpdate = (view: ProgressView) => (isOver(view.progress) ? 0 : Math.max(0, view.seen_seconds_ago));

export const elapsedNow = (view: ProgressView): number => view.progress.elapsed_seconds + secondsSinceUpdate(view);

const stepElapsedNow = (view: ProgressView): number =>
  (view.progress.step_elapsed_seconds ?? view.progress.elapsed_seconds) + secondsSinceUpdate(view);

const stepName = (progress: ReadableProgress) => printable(progress.label || progress.phase || progress.status);

const stepNumber = ({ step, total_steps }: ReadableProgress) =>
  step && total_steps ? `Step ${step}/${total_steps}` : '';

const joinPieces = (...pieces: (string | false | null | undefined)[]) => pieces.filter(Boolean).join(' · ');

/** With fewer recorded runs, the text says how many there are. */
const fewSamples = 10;

const timesText = (samples: number) => (samples === 1 ? 'once' : `${samples} times`);

/** ` (usually 2–5 s)` from recorded runs; ` (5–10 min)` from the provider's typical times. */
function expectation({ expected }: ReadableProgress): string {
  if (!expected) return '';
  const { p50_seconds, p90_seconds, samples } = expected;
  if (samples === 0) return ` (${formatUsualRange(p50_seconds, p90_seconds)})`;
  const basis = samples < fewSamples ? `, seen ${timesText(samples)}` : '';
  return ` (usually ${formatUsualRange(p50_seconds, p90_seconds)}${basis})`;
}

/** `Step 3/5 · Registering (usually 2–5 s) · 4s` */
export const headline = (view: ProgressView): string =>
  joinPieces(
    stepNumber(view.progress),
    stepName(view.progress) + expectation(view.progress),
    formatElapsed(stepElapsedNow(view)),
  );

const filled = '━';
const partial = '╸';
const empty = '─';

/** Draws half columns too. Only 100 % fills the bar. */
export function barLine(percent: number, width: number, paint: Paint, tone: Tone): string {
  const halves = Math.min(percent >= 100 ? width * 2 : width * 2 - 1, Math.floor((percent / 100) * width * 2));
  const full = Math.floor(halves / 2);
  const done = filled.repeat(full) + (halves % 2 === 1 ? partial : '');
  return paint(tone, done) + paint('quiet', empty.repeat(width - full - (halves % 2)));
}

/** A step is called slow if it is slower than this share of earlier runs. */
const slowShare = 0.5;

function failureText(view: ProgressView): string | null {
  const { failing } = view.progress;
  if (!failing) return null;
  const since = failing.seconds === null ? '' : ` for ${formatElapsed(failing.seconds + secondsSinceUpdate(view))}`;
  return `failing${since}${failing.tries > 1 ? ` (${failing.tries} tries)` : ''}`;
}

/** Says that the step fails, when it is retried or expected to end, or that it is late. */
export function outlook(view: ProgressView): string {
  const { progress } = view;
  if (isOver(progress)) return '';
  const failure = failureText(view);
  const pieces: string[] = failure === null ? [] : [failure];
  if (progress.retry_after_seconds !== undefined) {
    const remaining = progress.retry_after_seconds - secondsSinceUpdate(view);
    pieces.push(remaining >= 1 ? `next try in ${formatElapsed(remaining)}` : 'trying again');
  }
  if (progress.stalled) pieces.push('stalled: no progress for longer than usual');
  if (progress.eta_seconds !== null && progress.eta_seconds !== undefined) {
    const remaining = progress.eta_seconds - secondsSinceUpdate(view);
    pieces.push(remaining >= 1 ? `about ${formatElapsed(remaining)} left` : 'should be done by now');
  }
  const slower = progress.slower_than ?? 0;
  if (slower >= slowShare) pieces.push(`slower than ${Math.floor(slower * 100)} % of earlier runs of this step`);
  return pieces.join(' · ');
}

const partMarks: Record<ProgressPart['tone'], { mark: string; tone: Tone }> = {
  ok: { mark: '✔', tone: 'good' },
  busy: { mark: '◐', tone: 'busy' },
  bad: { mark: '✖', tone: 'bad' },
  idle: { mark: '○', tone: 'quiet' },
};

function chip(part: ProgressPart): { text: string; tone: Tone } {
  const { mark, tone } = partMarks[part.tone] ?? partMarks.idle;
  const detail = part.detail ? ` (${part.detail})` : '';
  const isNodes = part.kind === 'pool' && part.count !== undefined;
  const count = part.count === undefined || isNodes ? '' : ` ×${part.count}`;
  const nodes = isNodes ? ` ${part.count}n` : '';
  return { text: printable(`${mark} ${part.name}${count} ${part.state}${nodes}${detail}`), tone };
}

export function chipLines(parts: ProgressPart[], width: number, paint: Paint): string[] {
  const lines: string[] = [];
  let line = '';
  let used = 0;
  for (const part of parts) {
    const { text, tone } = chip(part);
    const short = truncate(text, width);
    const needed = displayWidth(short);
    if (line !== '' && used + 3 + needed > width) {
      lines.push(line);
      line = '';
      used = 0;
    }
    line += (line === '' ? '' : '   ') + paint(tone, short);
    used += (used === 0 ? 0 : 3) + needed;
  }
  return line === '' ? lines : [...lines, line];
}

const barTones: Partial<Record<Progress['status'], Tone>> = { failed: 'bad', succeeded: 'good', cancelled: 'quiet' };
const minBarColumns = 5;
const maxBarColumns = 30;
/** Leaves room beside the bar for the percentage and the details. */
const detailColumns = 30;

const messageOf = ({ error, failing, message }: ReadableProgress) =>
  printable(error?.message ?? failing?.message ?? message ?? '');

/** `3/5 Registering 52 %`, or the error of a step that fails. */
export function listText(progress: Progress): string {
  const step = `${progress.step}/${progress.total_steps} ${printable(progress.label)}`;
  return progress.failing
    ? `${step} failing: ${printable(progress.failing.message)}`
    : `${step} ${Math.floor(progress.percent)} %`;
}

/** Renders the block that is redrawn in place: headline, bar, message and chips. */
export function progressLines(view: ProgressView, fit: { width: number; paint: Paint }): string[] {
  const { progress, bar } = view;
  const { paint, width } = fit;
  const tone = barTones[progress.status] ?? (progress.failing ? 'warn' : 'busy');
  const lines = [paint('strong', truncate(headline(view), width))];

  const soFar = isOver(progress) ? '' : `${formatElapsed(elapsedNow(view))} so far`;
  if (bar) {
    const percent = `${Math.floor(bar.percent)} %`.padStart(5);
    const barWidth = Math.max(minBarColumns, Math.min(maxBarColumns, width - detailColumns));
    const details = truncate(joinPieces(soFar, outlook(view)), width - barWidth - percent.length - 3);
    lines.push(`${barLine(bar.percent, barWidth, paint, tone)} ${percent}  ${paint('quiet', details)}`.trimEnd());
  } else lines.push(paint('quiet', truncate(joinPieces(soFar, outlook(view)), width)));

  const message = messageOf(progress);
  const messageTone = progress.error ? 'bad' : progress.failing ? 'warn' : undefined;
  if (message) lines.push(paint(messageTone, truncate(message, width)));
  return [...lines.filter((line) => line !== ''), ...chipLines(progress.parts ?? [], width, paint)];
}

/** Renders one line for output that cannot be redrawn. An equal line means no visible change. */
export function changeLine(view: Omit<ProgressView, 'seen_seconds_ago'>): string {
  const { progress } = view;
  const waiting = progress.retry_after_seconds === undefined ? '' : 'waits to retry';
  return joinPieces(
    stepNumber(progress),
    stepName(progress) + (isOver(progress) ? '' : expectation(progress)),
    progress.failing && 'failing',
    progress.stalled && 'stalled',
    waiting,
    messageOf(progress),
    ...(progress.parts ?? []).map((part) => chip(part).text),
  );
}
