/** Reads boot stages from the events of `cloud-init analyze dump`. */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';
import { checkOpenStages, roundToMicroseconds, stageAt } from './stages.ts';

interface Event {
  name: string;
  event_type: string;
  /** Seconds since 1970. */
  timestamp: number;
}

/** The first event of every boot. */
const firstStage = 'init-local';

const isEvent = (value: unknown): value is Event => {
  const { name, event_type, timestamp } = (value ?? {}) as Partial<Record<keyof Event, unknown>>;
  return typeof name === 'string' && name !== '' && typeof event_type === 'string' && Number.isFinite(timestamp);
};

function parseEvents(text: string): Event[] {
  let events: unknown;
  try {
    events = JSON.parse(text);
  } catch {
    throw new ApiProblem('invalid_request', 'The report begins as cloud-init analyze dump does, but is not JSON.');
  }
  if (!Array.isArray(events)) throw new ApiProblem('invalid_request', 'cloud-init analyze dump prints a list.');
  const wrong = events.findIndex((each) => !isEvent(each));
  if (wrong >= 0)
    throw new ApiProblem(
      'invalid_request',
      `Event ${wrong + 1} is not one of cloud-init analyze dump: it needs a name, an event_type and a timestamp.`,
    );
  return events;
}

export function readDump(text: string): BootStage[] {
  let stages: BootStage[] = [];
  let open: Event[] = [];
  let started: number | undefined;
  for (const event of parseEvents(text)) {
    const { name, event_type, timestamp } = event;
    if (event_type === 'start') {
      if (name === firstStage) {
        // Only the last of several boots counts.
        stages = [];
        open = [];
        started = timestamp;
      }
      started ??= timestamp;
      checkOpenStages(open);
      open.push(event);
    } else {
      const begun = open.findLast((each) => each.name === name);
      // Some releases log no start of a stage, and the clock may be set back meanwhile: the
      // duration is unknown.
      if (!begun || started === undefined) continue;
      open = open.filter((each) => each !== begun);
      if (timestamp < begun.timestamp) continue;
      stages.push(
        stageAt(name, roundToMicroseconds(timestamp - begun.timestamp), roundToMicroseconds(begun.timestamp - started)),
      );
    }
  }
  return stages;
}
