/** Reads boot stages from the events of `cloud-init analyze dump`. */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';
import { buildStageFromPath, checkOpenStages, roundToMicroseconds } from './stages.ts';

interface Event {
  name: string;
  event_type: string;
  /** Seconds since 1970. */
  timestamp: number;
}

/** The stage that every boot starts with. */
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
    throw new ApiProblem(
      'invalid_request',
      'The report starts like the output of cloud-init analyze dump, but is not JSON.',
    );
  }
  if (!Array.isArray(events)) throw new ApiProblem('invalid_request', 'cloud-init analyze dump prints a list.');
  const invalidIndex = events.findIndex((each) => !isEvent(each));
  if (invalidIndex >= 0)
    throw new ApiProblem(
      'invalid_request',
      `Event ${invalidIndex + 1} is not one of cloud-init analyze dump: it needs a name, an event_type and a timestamp.`,
    );
  return events;
}

export function readDump(text: string): BootStage[] {
  let stages: BootStage[] = [];
  let openEvents: Event[] = [];
  let bootStart: number | undefined;
  for (const event of parseEvents(text)) {
    const { name, event_type, timestamp } = event;
    if (event_type === 'start') {
      if (name === firstStage) {
        // Only the last of several boots counts.
        stages = [];
        openEvents = [];
        bootStart = timestamp;
      }
      bootStart ??= timestamp;
      checkOpenStages(openEvents);
      openEvents.push(event);
    } else {
      const startEvent = openEvents.findLast((each) => each.name === name);
      // The duration is unknown if this release of cloud-init logs no start of the stage, or if the
      // clock was set back.
      if (!startEvent || bootStart === undefined) continue;
      openEvents = openEvents.filter((each) => each !== startEvent);
      if (timestamp < startEvent.timestamp) continue;
      stages.push(
        buildStageFromPath(
          name,
          roundToMicroseconds(timestamp - startEvent.timestamp),
          roundToMicroseconds(startEvent.timestamp - bootStart),
        ),
      );
    }
  }
  return stages;
}
