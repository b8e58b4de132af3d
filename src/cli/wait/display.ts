/** Shows the subject of a wait, redrawn in place on a terminal, or as one line per change. */
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
import { formatDuration, formatElapsed } from '../render/text/duration.ts';
import { stepMark, stepTone } from '../render/text/palette.ts';
import type { Fit } from '../render/text/table.ts';
import { pad, printable, truncate, wrap } from '../render/text/text.ts';
import { openLiveView } from '../terminal/live-view.ts';
import { fitOf, printLines, type TerminalOutput } from '../terminal/terminal.ts';
import type { Observation } from './follow.ts';
import { progressOf, type Subject, setbackOf } from './subject.ts';

export interface Display {
  show(observation: Observation): void;
  close(): void;
}

interface WaitState extends Observation {
  bar: Bar | null;
  /** The age of the last answer about the subject. */
  seen_seconds_ago: number;
}

function viewOf(state: WaitState): ProgressView | null {
  const progress = progressOf(state.subject);
  return progress && { ...state, progress };
}

/** Renders the finished steps, each with its duration. */
function stepLines(subject: Subject, { width, paint }: Fit): string[] {
  const finishedSteps = (subject.operation?.steps ?? []).filter(
    ({ status }) => status === 'done' || status === 'failed' || status === 'cancelled',
  );
  const labelWidth = Math.max(0, ...finishedSteps.map(({ label }) => label.length));
  return finishedSteps.map(({ label, status, started_at, finished_at, tries }) => {
    const seconds = started_at && finished_at ? (Date.parse(finished_at) - Date.parse(started_at)) / 1000 : null;
    const triesText = tries > 1 ? `  (${tries} tries)` : '';
    const text = `${pad(printable(label), labelWidth)}  ${seconds === null ? '' : formatDuration(seconds).padStart(6)}${triesText}`;
    return `${paint(stepTone(status), stepMark(status))} ${paint('quiet', truncate(text.trimEnd(), width - 2))}`;
  });
}

function waitingLines(state: WaitState, fit: Fit): string[] {
  const view = viewOf(state);
  const setback = setbackOf(state.subject);
  const status = state.subject.allocation?.status ?? state.subject.node?.status ?? 'waiting';
  const notice =
    state.link === 'lost'
      ? `! no answer for ${formatElapsed(state.seen_seconds_ago)}; retrying, the operation continues on the server`
      : null;
  return [
    ...(setback === null ? [] : wrap(`! ${printable(setback)}`, fit.width).map((line) => fit.paint('warn', line))),
    ...stepLines(state.subject, fit),
    ...(view && !isOver(view.progress) ? progressLines(view, fit) : []),
    ...(view ? [] : [`${status} · ${formatElapsed(state.seen_seconds_ago)}`]),
    ...(notice === null ? [] : [fit.paint('warn', truncate(notice, fit.width))]),
  ];
}

function liveDisplay(output: TerminalOutput, session: Session, known: Subject): Display {
  const { clock } = session;
  let bar: Bar | null = null;
  let observation: Observation = { subject: known, link: 'live' };
  let seenMs = clock.monotonicMs();
  const readState = (): WaitState => {
    const progress = progressOf(observation.subject);
    bar = progress && raiseBar(bar, progress);
    return { ...observation, bar, seen_seconds_ago: (clock.monotonicMs() - seenMs) / 1000 };
  };
  const view = openLiveView(output, clock, () => waitingLines(readState(), fitOf(output)));
  return {
    show(next) {
      if (next.link !== 'lost') seenMs = clock.monotonicMs();
      observation = next;
      view.markChanged();
    },
    close: () => view.close(stepLines(observation.subject, fitOf(output))),
  };
}

function lineDisplay(output: TerminalOutput): Display {
  let last = '';
  let lastSetback: string | null = null;
  const printOnce = (line: string, prefix: string) => {
    if (line === '' || line === last) return;
    last = line;
    printLines(output, [`${prefix.padStart(7)}  ${line}`]);
  };
  return {
    show({ subject, link }) {
      if (link === 'lost') return printOnce('no answer; retrying, the operation continues on the server', '');
      const view = viewOf({ subject, link, bar: null, seen_seconds_ago: 0 });
      if (!view) return;
      const setback = setbackOf(subject);
      if (setback !== null && setback !== lastSetback) printOnce(`! ${printable(setback)}`, '');
      lastSetback = setback;
      printOnce(changeLine(view), formatElapsed(elapsedNow(view)));
    },
    close() {},
  };
}

const silentDisplay: Display = { show() {}, close() {} };

/** With --json, stdout gets only the document. An interactive stderr still shows progress. */
export function displayFor(session: Session, known: Subject): Display {
  const { out, err } = session.terminal;
  const output = session.json ? err : out;
  if (output.interactive) return liveDisplay(output, session, known);
  return session.json ? silentDisplay : lineDisplay(output);
}
