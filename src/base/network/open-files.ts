/**
 * The maximum number of files and connections this process may have open. Node raises the soft
 * limit to the hard one at startup.
 */

/** Also used if the limit cannot be read. */
const unlimited = 1_000_000;

export function openFilesLimit(): number {
  // Otherwise the report queries every network interface.
  const report = Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: number | 'unlimited' } } };
  const soft = userLimits?.open_files?.soft;
  return typeof soft === 'number' ? soft : unlimited;
}
