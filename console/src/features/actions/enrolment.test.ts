import { expect, it } from 'vitest';
import { enrolLine } from './enrolment.ts';

it('renders the same command as the CLI', () => {
  expect(enrolLine('swe_once', 'https://slipway.test')).toBe(
    'SLIPWAY_ENROLLMENT_TOKEN=swe_once slipway agent --server https://slipway.test',
  );
});
