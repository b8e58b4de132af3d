/** The severity of evidence in a SIEM, by the verb of its kind. */

const warnings = new Set([
  'failed',
  'denied',
  'refused',
  'missing',
  'overdue',
  'release_failed',
  'quarantined',
  'broken',
]);

/** CEF: 0 to 10. Syslog: 4 is warning, 5 is notice. */
export function severityOf(kind: string): { cef: number; syslog: number } {
  return warnings.has(kind.slice(kind.indexOf('.') + 1)) ? { cef: 6, syslog: 4 } : { cef: 3, syslog: 5 };
}
