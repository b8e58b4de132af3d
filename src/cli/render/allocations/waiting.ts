/** What stands on the screen while a person waits: the steps that are done, the one that is not, and the connection. */
import type { Sighting } from '../../wait/follow.ts';
import { progressOf, type Subject, setbackOf } from '../../wait/subject.ts';
import { elapsed, taken } from '../text/duration.ts';
import { stepMarks, stepTones } from '../text/palette.ts';
import type { Fit } from '../text/table.ts';
import { pad, printable, truncate, wrap } from '../text/text.ts';
import { type Bar, isOver, type ProgressView, progressLines } from './progress.ts';

export interface Waiting {
  subject: Subject;
  link: Sighting['link'];
  bar: Bar | null;
  /** Since the subject was last heard of. */
  seen_seconds_ago: number;
}

export function viewOf(waiting: Waiting): ProgressView | null {
  const progress = progressOf(waiting.subject);
  return progress && { ...waiting, progress };
}

/** Steps that have ended, each with what it took. */
export function stepLines(subject: Subject, { width, paint }: Fit): string[] {
  const ended = (subject.operation?.steps ?? []).filter(({ status }) => status === 'done' || status === 'failed');
  const labelWidth = Math.max(0, ...ended.map(({ label }) => label.length));
  return ended.map(({ label, status, started_at, finished_at, tries }) => {
    const seconds = started_at && finished_at ? (Date.parse(finished_at) - Date.parse(started_at)) / 1000 : null;
    const again = tries > 1 ? `  (${tries} tries)` : '';
    const text = `${pad(printable(label), labelWidth)}  ${seconds === null ? '' : taken(seconds).padStart(6)}${again}`;
    return `${paint(stepTones[status], stepMarks[status])} ${paint('quiet', truncate(text.trimEnd(), width - 2))}`;
  });
}

const linkNotes: Record<Sighting['link'], (seconds: number) => string | null> = {
  live: () => null,
  polling: () => null,
  lost: (seconds) => `! no answer for ${elapsed(seconds)}; trying again, the work goes on without us`,
};

export function waitingLines(waiting: Waiting, fit: Fit): string[] {
  const view = viewOf(waiting);
  const note = linkNotes[waiting.link](waiting.seen_seconds_ago);
  const setback = setbackOf(waiting.subject);
  const status = waiting.subject.allocation?.status ?? waiting.subject.node?.status ?? 'waiting';
  return [
    ...(setback === null ? [] : wrap(`! ${printable(setback)}`, fit.width).map((line) => fit.paint('warn', line))),
    ...stepLines(waiting.subject, fit),
    ...(view && !isOver(view.progress) ? progressLines(view, fit) : []),
    ...(view ? [] : [`${status} · ${elapsed(waiting.seen_seconds_ago)}`]),
    ...(note === null ? [] : [fit.paint('warn', truncate(note, fit.width))]),
  ];
}
