/** An error as a person reads it: what, why, what to do, and where to look further. */
import { exitCodes } from '../../terminal/exit-codes.ts';
import type { FailureReport } from '../../terminal/failure.ts';
import type { Fit } from './table.ts';
import { flow, printable, wrap } from './text.ts';

const indent = '  ';

export function failureLines(report: FailureReport, fit: Fit): string[] {
  const { paint } = fit;
  const inside = (text: string) => wrap(printable(text), fit.width - indent.length).map((line) => indent + line);
  const facts = [
    report.status === null ? null : report.code,
    report.owner_layer && `owner: ${report.owner_layer}`,
    report.correlation_id && `correlation_id ${report.correlation_id}`,
  ].filter((fact): fact is string => typeof fact === 'string' && fact !== '');
  return [
    `${paint('bad', '✖')} ${paint('strong', printable(report.what))}`,
    ...(report.why ? inside(report.why) : []),
    ...report.errors.flatMap(({ path, message }) => inside(`${path || '(body)'}: ${message}`)),
    ...(report.remedy ? inside(`What to do: ${report.remedy}`) : []),
    ...flow(facts, fit.width - indent.length).map((line) => paint('quiet', indent + line)),
  ];
}

export const failureJson = (report: FailureReport) => ({
  error: {
    code: report.code,
    title: report.what,
    detail: report.why,
    remedy: report.remedy,
    ...(report.errors.length > 0 && { errors: report.errors }),
    owner_layer: report.owner_layer,
    correlation_id: report.correlation_id,
    status: report.status,
    exit_code: exitCodes[report.exit].code,
  },
});
