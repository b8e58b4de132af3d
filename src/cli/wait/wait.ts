/** `--wait`: shows the progress of one thing until it is settled, the time is up, or the person has seen enough. */

import { isPassing, type Session } from '../connection/session.ts';
import { closingLines, unfinishedLines } from '../render/allocations/outcome.ts';
import { type Bar, changeLine, elapsedNow, raiseBar } from '../render/allocations/progress.ts';
import { stepLines, viewOf, type Waiting, waitingLines } from '../render/allocations/waiting.ts';
import { elapsed, taken } from '../render/text/duration.ts';
import { printable } from '../render/text/text.ts';
import type { ExitName } from '../terminal/exit-codes.ts';
import { Interrupted } from '../terminal/failure.ts';
import { openLiveView } from '../terminal/live-view.ts';
import { fitOf, printLines, type Surface } from '../terminal/terminal.ts';
import { follow, look, type Sighting } from './follow.ts';
import { leftBehind } from './left-behind.ts';
import { type Goal, settlementOf } from './settlement.ts';
import { progressOf, type Subject, setbackOf, type Target } from './subject.ts';
import { waysOut } from './ways-out.ts';

export interface WaitRequest {
  target: Target;
  goal: Goal;
  known: Subject;
  timeout_seconds: number | null;
}

export interface Waited {
  exit: ExitName;
  subject: Subject;
}

/** Shows sightings; redrawn in place for a person, one line a change for a log. */
interface Display {
  show(sighting: Sighting): void;
  close(): void;
}

const silent: Display = { show() {}, close() {} };

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
      view.touch();
    },
    close: () => view.close(stepLines(sighting.subject, fitOf(surface))),
  };
}

function lineDisplay(surface: Surface): Display {
  let last = '';
  let lastSetback: string | null = null;
  const say = (line: string, prefix: string) => {
    if (line === '' || line === last) return;
    last = line;
    printLines(surface, [`${prefix.padStart(7)}  ${line}`]);
  };
  return {
    show({ subject, link }) {
      if (link === 'lost') return say('no answer; trying again, the work goes on without us', '');
      const view = viewOf({ subject, link, bar: null, seen_seconds_ago: 0 });
      if (!view) return;
      const setback = setbackOf(subject);
      if (setback !== null && setback !== lastSetback) say(`! ${printable(setback)}`, '');
      lastSetback = setback;
      say(changeLine(view), elapsed(elapsedNow(view)));
    },
    close() {},
  };
}

function displayFor(session: Session, known: Subject): Display {
  const { out, err } = session.terminal;
  // With --json the document alone goes to stdout; a person may still watch on stderr.
  const surface = session.json ? err : out;
  if (surface.interactive) return liveDisplay(surface, session, known);
  return session.json ? silent : lineDisplay(surface);
}

/**
 * An allocation whose operation ended in failure is asked for once more before that is believed. Its next try is queued
 * before the last one ends; so who saw the end and then finds no other operation named, knows that there is none.
 */
async function confirmed(session: Session, { target, goal }: WaitRequest, seen: Subject, signal: AbortSignal) {
  let subject = seen;
  let exit = settlementOf(subject, goal);
  while (exit === 'failed' && subject.allocation?.status === 'failed') {
    const tried = subject.allocation.workflow_id;
    try {
      subject = await look(session, target, subject, signal);
    } catch (error) {
      if (error instanceof Interrupted) return { subject, exit: null };
      if (!isPassing(error)) throw error;
      break;
    }
    exit = settlementOf(subject, goal);
    if (subject.allocation?.workflow_id === tried) break;
  }
  return { subject, exit };
}

async function settle(
  session: Session,
  request: WaitRequest,
  display: Display,
  timeUp: AbortSignal,
): Promise<Waited | Subject> {
  let subject = request.known;
  const signal = AbortSignal.any([session.signal, timeUp]);
  for await (const sighting of follow(session, request.target, subject, signal)) {
    display.show(sighting);
    const { exit, ...latest } = await confirmed(session, request, sighting.subject, signal);
    subject = latest.subject;
    if (exit) return { exit, subject };
  }
  return subject;
}

export async function waitUntilSettled(session: Session, request: WaitRequest): Promise<Waited> {
  const { clock, terminal, json } = session;
  const timeUp = new AbortController();
  const { timeout_seconds, target } = request;
  const cancel = timeout_seconds === null ? () => {} : clock.after(timeout_seconds * 1000, () => timeUp.abort());
  const display = displayFor(session, request.known);
  let outcome: Waited | Subject;
  try {
    outcome = await settle(session, request, display, timeUp.signal);
  } finally {
    cancel();
    display.close();
  }
  const surface = json ? terminal.err : terminal.out;
  const context = { ...fitOf(surface), nowMs: clock.nowMs(), commandLine: session.commandLine };
  if ('exit' in outcome) {
    if (!json) {
      const left_behind = await leftBehind(session, outcome.subject);
      const ways_out = await waysOut(session, outcome.subject, context);
      const closing = { ...context, ways_out, ...(left_behind !== undefined && { left_behind }) };
      printLines(surface, closingLines(outcome.subject, outcome.exit, closing));
    }
    return outcome;
  }
  const interrupted = session.signal.aborted;
  const because = interrupted ? 'Stopped waiting' : `Not settled within ${taken(timeout_seconds ?? 0)}`;
  if (!json || surface.interactive) printLines(surface, unfinishedLines(outcome, target, because, context));
  return { exit: interrupted ? 'interrupted' : 'timed_out', subject: outcome };
}
