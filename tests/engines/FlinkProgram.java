import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs statements of Flink in this process: takes a line for each request, `mode verb argument`, where mode is
 * `batch` or `streaming`. Answers rows, their fields parted by 0x1F, and then `ok` or `error` and what was wrong.
 */
public final class FlinkProgram {

  private static final String END = "\u0004";

  private final Map<String, TableEnvironment> environments = new HashMap<>();
  private final Map<String, JobClient> jobs = new HashMap<>();
  private final Map<String, CompletableFuture<JobExecutionResult>> results = new HashMap<>();
  private final PrintStream answers;

  private FlinkProgram(Map<String, String> settings, PrintStream answers) {
    this.answers = answers;
    for (String mode : new String[] {"batch", "streaming"}) {
      EnvironmentSettings.Builder builder = EnvironmentSettings.newInstance();
      builder.withConfiguration(Configuration.fromMap(settings));
      environments.put(mode, TableEnvironment.create(
          (mode.equals("batch") ? builder.inBatchMode() : builder.inStreamingMode()).build()));
    }
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    Map<String, String> settings = new HashMap<>();
    for (String argument : arguments) {
      settings.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
    }
    FlinkProgram program = new FlinkProgram(settings, answers);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] parts = line.split(" ", 3);
      try {
        program.answer(parts[0], parts[1], parts[2]);
        answers.println(END + "ok");
      } catch (Throwable error) {
        StringBuilder said = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
          said.append(cause).append(" <- ");
        }
        answers.println(END + "error " + said.toString().replace('\n', ' '));
      }
    }
    System.exit(0);
  }

  private void answer(String mode, String verb, String argument) throws Exception {
    switch (verb) {
      case "run" -> {
        TableResult result = environments.get(mode).executeSql(argument);
        if (argument.startsWith("INSERT")) {
          result.await();
        } else {
          print(result);
        }
      }
      case "start" -> {
        JobClient job = environments.get(mode).executeSql(argument).getJobClient().orElseThrow();
        jobs.put(job.getJobID().toString(), job);
        // Asked for now: the cluster of a job is gone when the job has ended.
        results.put(job.getJobID().toString(), job.getJobExecutionResult());
        answers.println(job.getJobID());
      }
      case "status" -> answers.println(jobs.get(argument).getJobStatus().get());
      case "wait" -> results.get(argument).get();
      case "cancel" -> jobs.get(argument).cancel().get();
      default -> throw new IllegalArgumentException(verb);
    }
  }

  private void print(TableResult result) throws Exception {
    try (CloseableIterator<Row> rows = result.collect()) {
      while (rows.hasNext()) {
        Row row = rows.next();
        StringBuilder line = new StringBuilder(row.getKind().shortString());
        for (int place = 0; place < row.getArity(); place++) {
          line.append('\u001f').append(row.getField(place));
        }
        answers.println(line.toString().replace('\n', ' '));
      }
    }
  }
}
