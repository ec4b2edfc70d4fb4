// Runs calls of IcebergRestCatalog that come as JSON lines, and answers each with one line.
import { createInterface } from 'node:readline'
import { IcebergRestCatalog } from 'iceberg-js'

const [baseUrl, catalogName] = process.argv.slice(2)
const catalog = new IcebergRestCatalog({ baseUrl, catalogName, auth: { type: 'none' } })

for await (const line of createInterface({ input: process.stdin })) {
  const { method, args } = JSON.parse(line)
  try {
    console.log(JSON.stringify({ result: (await catalog[method](...args)) ?? null }))
  } catch (error) {
    console.log(JSON.stringify({ error: { message: error.message, status: error.status ?? null } }))
  }
}
