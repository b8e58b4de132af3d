/** Events of an operation, of the clock and of the servers, in random order. */
import fc from 'fast-check';

export interface PlannedStep {
  /** The estimate of the plan. */
  usual_seconds: number | null;
  /** Seconds of earlier runs. */
  took: number[];
}

export type ProgressEvent =
  | { kind: 'time passes'; seconds: number }
  | { kind: 'the clock is set back'; seconds: number }
  | { kind: 'other operations end'; took: number }
  | { kind: 'it reports'; message: string; parts: number; retry: boolean }
  | { kind: 'a server restarts' | 'another server takes over' }
  | { kind: 'its step begins' | 'a try fails' | 'its step is done' | 'its step is not needed' }
  | { kind: 'it fails' | 'it is cancelled' | 'it is tried again' | 'it succeeds' };

export interface History {
  plan: PlannedStep[];
  events: ProgressEvent[];
}

const seconds = (max: number) => fc.double({ min: 0, max, noNaN: true });

const event: fc.Arbitrary<ProgressEvent> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('time passes' as const), seconds: seconds(2000) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('the clock is set back' as const), seconds: seconds(500) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('other operations end' as const), took: seconds(3000) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('it reports' as const),
      message: fc.constantFrom('Creating', 'Running', 'Updating'),
      parts: fc.integer({ min: 0, max: 3 }),
      retry: fc.boolean(),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'a server restarts' as const,
        'another server takes over' as const,
        'its step begins' as const,
        'its step begins' as const,
        'its step begins' as const,
        'a try fails' as const,
        'its step is done' as const,
        'its step is done' as const,
        'its step is not needed' as const,
        'it fails' as const,
        'it is cancelled' as const,
        'it is tried again' as const,
        'it is tried again' as const,
        'it succeeds' as const,
      ),
    }),
  },
);

const planned: fc.Arbitrary<PlannedStep> = fc.record({
  usual_seconds: fc.option(seconds(1000)),
  took: fc.array(seconds(3000), { maxLength: 6 }),
});

export const histories = (shortest: number, longest: number): fc.Arbitrary<History> =>
  fc.record({
    plan: fc.array(planned, { minLength: 1, maxLength: 7, size: 'max' }),
    events: fc.array(event, { minLength: shortest, maxLength: longest, size: 'max' }),
  });
