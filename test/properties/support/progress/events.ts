/** Generates random histories: events of an operation, of the clock and of the servers. */
import fc from 'fast-check';

export interface PlannedStep {
  /** The duration that the plan estimates. */
  usual_seconds: number | null;
  /** The durations of the step in earlier operations. */
  sample_seconds: number[];
}

export type ProgressEvent =
  | { kind: 'time passes'; seconds: number }
  | { kind: 'the clock is set back'; seconds: number }
  | { kind: 'other operations end'; seconds: number }
  | { kind: 'the operation reports'; message: string; parts: number; retry: boolean }
  | { kind: 'a server restarts' | 'another server takes over' }
  | {
      kind:
        | 'the step begins'
        | 'a try fails'
        | 'the step reports an error'
        | 'the step recovers'
        | 'the step is done'
        | 'the step is skipped';
    }
  | {
      kind:
        | 'the operation fails'
        | 'the operation is cancelled'
        | 'the operation is retried'
        | 'the operation succeeds';
    };

export interface History {
  plan: PlannedStep[];
  events: ProgressEvent[];
}

const seconds = (max: number) => fc.double({ min: 0, max, noNaN: true });

const event: fc.Arbitrary<ProgressEvent> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('time passes' as const), seconds: seconds(2000) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('the clock is set back' as const), seconds: seconds(500) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('other operations end' as const), seconds: seconds(3000) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('the operation reports' as const),
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
        'the step begins' as const,
        'the step begins' as const,
        'the step begins' as const,
        'a try fails' as const,
        'the step reports an error' as const,
        'the step recovers' as const,
        'the step is done' as const,
        'the step is done' as const,
        'the step is skipped' as const,
        'the operation fails' as const,
        'the operation is cancelled' as const,
        'the operation is retried' as const,
        'the operation is retried' as const,
        'the operation succeeds' as const,
      ),
    }),
  },
);

const plannedStep: fc.Arbitrary<PlannedStep> = fc.record({
  usual_seconds: fc.option(seconds(1000)),
  sample_seconds: fc.array(seconds(3000), { maxLength: 6 }),
});

export const histories = (minEvents: number, maxEvents: number): fc.Arbitrary<History> =>
  fc.record({
    plan: fc.array(plannedStep, { minLength: 1, maxLength: 7, size: 'max' }),
    events: fc.array(event, { minLength: minEvents, maxLength: maxEvents, size: 'max' }),
  });
