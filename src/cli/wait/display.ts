/** Shows the subject of a wait: redrawn in place on a terminal, or one line per change. */
import type { Session } from '../connection/session.ts';
import {
  type Bar,
  changeLine,
  elapsedNow,
  isOver,
  type ProgressView,
  progressLines,
  raiseBar,
} from '../render/allocations/progress.ts';
import { elapsed, formatDuration } from '../render/text/duration.ts';
import { stepMarks, stepTones } from '../render/text/palette.ts';
import type { Fit } from '../render/text/table.ts';
import { pad, printable, truncate, wrap } from '../render/text/text.ts';
import { openLiveView } from '../terminal/live-view.ts';
import { fitOf, printLines, type Surface } from '../terminal/terminal.ts';
import type { Sighting } from './follow.ts';
import { progressOf, type Subject, setbackOf } from './subject.ts';

export interface Display {
  show(sighting: Sighting): void;
  close(): void;
}

interface Waiting extends Sighting {
  bar: Bar | null;
  /** The age of the last answer about the subject. */
  seen_seconds_ago: number;
}

function viewOf(waiting: Waiting): ProgressView | null {
  const progress = progressOf(waiting.subject);
  return progress && { ...waiting, progress };
}

/** The finished steps, each with its duration. */
function stepLines(subject: Subject, { width, paint }: Fit): string[] {
  const ended = (subject.operation?.steps ?? []).filter(({ status }) => status === 'done' || status === 'failed');
  const labelWidth = Math.max(0, ...ended.map(({ label }) => label.length));
  return ended.map(({ label, status, started_at, finished_at, tries }) => {
    const seconds = started_at && finished_at ? (Date.parse(finished_at) - Date.parse(started_at)) / 1000 : null;
    const again = tries > 1 ? `  (${tries} tries)` : '';
    const text = `${pad(printable(label), labelWidth)}  ${seconds === null ? '' : formatDuration(seconds).padStart(6)}${again}`;
    return `${paint(stepTones[status], stepMarks[status])} ${paint('quiet', truncate(text.trimEnd(), width - 2))}`;
  });
}

function waitingLines(waiting: Waiting, fit: Fit): string[] {
  const view = viewOf(waiting);
  const setback = setbackOf(waiting.subject);
  const status = waiting.subject.allocation?.status ?? waiting.subject.node?.status ?? 'waiting';
  const note =
    waiting.link === 'lost'
      ? `! no answer for ${elapsed(waiting.seen_seconds_ago)}; retrying, the operation continues on the server`
      : null;
  return [
    ...(setback === null ? [] : wrap(`! ${printable(setback)}`, fit.width).map((line) => fit.paint('warn', line))),
    ...stepLines(waiting.subject, fit),
    ...(view && !isOver(view.progress) ? progressLines(view, fit) : []),
    ...(view ? [] : [`${status} · ${elapsed(waiting.seen_seconds_ago)}`]),
    ...(note === null ? [] : [fit.paint('warn', truncate(note, fit.width))]),
  ];
}

function liveDisplay(surface: Surface, session: Session, known: Subject): Display {
  const { clock } = session;
  let bar: Bar | null = null;
  let sighting: Sighting = { subject: known, link: 'live' };
  let seenMs = clock.monotonicMs();
  const waiting = (): Waiting => {
    const progress = progressOf(sighting.subject);
    bar = progress && raiseBar(bar, progress);
    return { ...sighting, bar, seen_seconds_ago: (clock.monotonicMs() - seenMs) / 1000 };
  };
  const view = openLiveView(surface, clock, () => waitingLines(waiting(), fitOf(surface)));
  return {
    show(next) {
      if (next.link !== 'lost') seenMs = clock.monotonicMs();
      sighting = next;
      view.markChanged();
    },
    close: () => view.close(stepLines(sighting.subject, fitOf(surface))),
  };
}

function lineDisplay(surface: Surface): Display {
  let last = '';
  let lastSetback: string | null = null;
  const printOnce = (line: string, prefix: string) => {
    if (line === '' || line === last) return;
    last = line;
    printLines(surface, [`${prefix.padStart(7)}  ${line}`]);
  };
  return {
    show({ subject, link }) {
      if (link === 'lost') return printOnce('no answer; retrying, the operation continues on the server', '');
      const view = viewOf({ subject, link, bar: null, seen_seconds_ago: 0 });
      if (!view) return;
      const setback = setbackOf(subject);
      if (setback !== null && setback !== lastSetback) printOnce(`! ${printable(setback)}`, '');
      lastSetback = setback;
      printOnce(changeLine(view), elapsed(elapsedNow(view)));
    },
    close() {},
  };
}

const silentDisplay: Display = { show() {}, close() {} };

/** With --json, stdout gets the document only; an interactive stderr still shows progress. */
export function displayFor(session: Session, known: Subject): Display {
  const { out, err } = session.terminal;
  const surface = session.json ? err : out;
  if (surface.interactive) return liveDisplay(surface, session, known);
  return session.json ? silentDisplay : lineDisplay(surface);
}
