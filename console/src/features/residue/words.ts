/** Describes residue: name, place, reason and cost. Pure. */
import type { Residue } from '../../../../src/contract/supervision/residue.ts';
import type { ResidueReason } from '../../../../src/lifecycle/findings/residue.ts';

export const residueName = ({ kind, resource }: Pick<Residue, 'kind' | 'resource'>): string => `${kind} ${resource}`;

export const whereWords = ({ driver, pool, host }: Pick<Residue, 'driver' | 'pool' | 'host'>): string =>
  [driver, pool && `pool ${pool}`, host && `on ${host}`].filter(Boolean).join(', ');

const whyWords: Record<ResidueReason, (by: string | undefined) => string> = {
  'force-release': (by) => `its release was forced${by ? ` by ${by}` : ''}`,
  orphan: () => 'found without an owner',
};

export const causeWords = ({ why, forced_by }: Pick<Residue, 'why' | 'forced_by'>): string =>
  whyWords[why](forced_by?.name);

const amount = new Intl.NumberFormat(undefined, { maximumFractionDigits: 4 });

/** In the currency of the driver. */
export const costWords = (per_hour: number): string => `${amount.format(per_hour)}/h`;

/** The sum of the known costs; null if none is known. */
export function totalCost(rows: readonly Pick<Residue, 'cost_per_hour'>[]): number | null {
  const known = rows.flatMap(({ cost_per_hour }) => cost_per_hour ?? []);
  return known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0);
}

export function residueHeadline(rows: readonly Pick<Residue, 'cost_per_hour'>[] | undefined, isAll: boolean): string {
  if (!rows || rows.length === 0) return 'Resources that may be left at a provider without an owner, newest first';
  const cost = totalCost(rows);
  const things = rows.length === 1 ? 'thing' : 'things';
  const count = `${rows.length}${isAll ? '' : ' or more'} ${things} may be left at a provider`;
  return cost === null ? count : `${count}, at ${costWords(cost)} in total, where the cost is known`;
}
