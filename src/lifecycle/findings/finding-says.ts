/** Renders the text of a finding. */
import { type FormerBoots, renderShift, type SlowerBoots } from '../boots/shift-finding.ts';
import { type ContestReason, contestReasons } from '../joins/contest.ts';
import { type FindingWhat, findingCatalogue } from './findings.ts';

type Side = Record<string, unknown>;

/**
 * Names a process by its endpoint and by the IP address that registered it, as far as known,
 * because two processes can report the same endpoint.
 */
const placeWords = ({ endpoint, source }: Side): string | null => {
  if (typeof endpoint !== 'string') return typeof source === 'string' ? source : null;
  return typeof source === 'string' ? `${endpoint} (from ${source})` : endpoint;
};

function addressWords(ours: Side, theirs: Side): string {
  const [holder, other] = [placeWords(ours), placeWords(theirs)];
  return holder === null || other === null
    ? ''
    : `; the machine at ${holder} has the name, the other machine is at ${other}`;
}

function renderTwoProcesses(ours: Side, theirs: Side): string {
  const [holder, other] = [placeWords(ours), placeWords(theirs)];
  const places = holder === null || other === null ? '' : `: ${holder} has it, ${other} does not`;
  return `${contestReasons.two_processes}${places}`;
}

/**
 * Returns the text of the catalogue. Adds details for an expiring token and for a contested name.
 * Slower boots and two processes under one name have texts of their own.
 */
export const renderFinding = ({ what, ours, theirs }: { what: FindingWhat; ours: Side; theirs: Side }): string => {
  if (what === 'boots_slower') return renderShift(ours as unknown as FormerBoots, theirs as unknown as SlowerBoots);
  const { says } = findingCatalogue[what];
  if (what === 'token_expiring') return `${says}: ${ours.name} (${ours.role}), at ${ours.expires_at}`;
  if (what !== 'name_contested') return says;
  if (theirs.because === 'two_processes') return renderTwoProcesses(ours, theirs);
  const reason = contestReasons[theirs.because as ContestReason] ?? 'unknown reason';
  return `${says}: ${reason}${addressWords(ours, theirs)}`;
};
