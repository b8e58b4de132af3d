/** Links a finding about slower boots to the Boots page, optionally with a budget to try. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Finding } from '../../../../src/contract/supervision/finding.ts';

interface Props {
  finding: Finding;
  budget_seconds?: number;
  children: ReactNode;
}

export const BootsLink = ({ finding: { pool, ours }, budget_seconds, children }: Props) => (
  <Link
    to="/boots"
    search={{
      ...(pool !== null && { pool }),
      ...(ours.phase === 'start' && { phase: 'start' }),
      ...(budget_seconds !== undefined && { budget: String(budget_seconds) }),
    }}
  >
    {children}
  </Link>
);
