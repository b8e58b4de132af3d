import { expect, it } from 'vitest';
import { enrolLine } from './enrolment.ts';

it('is the line that the command line prints', () => {
  expect(enrolLine('swe_once', 'https://slipway.test')).toBe(
    'SLIPWAY_ENROLLMENT_TOKEN=swe_once slipway agent --server https://slipway.test',
  );
});
